-- reads EmergencyReports, Shelters; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'name', c.`name`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `s`.`name` AS `name`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`etype` = `_s`.`etype`
LEFT JOIN (SELECT `s`.*, PMOD(PMOD(FLOOR(`s`.`x` / 512.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`s`.`y` / 512.0D), 2147483648) + _dy, 2147483648) AS _cell FROM full_Shelters AS `s` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `s`
  ON `s`.`_cell` = PMOD(FLOOR(`r`.`x` / 512.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`r`.`y` / 512.0D), 2147483648) AND ABS(`r`.`x` - `s`.`x`) <= 1000 AND ABS(`r`.`y` - `s`.`y`) <= 1000 AND SQRT(POWER(`r`.`x` - `s`.`x`, 2) + POWER(`r`.`y` - `s`.`y`, 2)) <= 1000
) AS c
