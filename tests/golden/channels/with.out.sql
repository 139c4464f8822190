-- reads EmergencyReports, Shelters; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'shelters', c.`shelters`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT `m`.`_subscription` AS _subscription,
  `m`.`id` AS `id`, COUNT(*) AS `shelters`
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `r`.`x` AS `x`, `r`.`y` AS `y`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`etype` = `_s`.`etype`
) AS `m`
JOIN (SELECT `s`.*, PMOD(PMOD(FLOOR(`s`.`x` / 64.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`s`.`y` / 64.0D), 2147483648) + _dy, 2147483648) AS _cell FROM full_Shelters AS `s` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `s`
  ON ABS(`m`.`x` - `s`.`x`) <= 100 AND ABS(`m`.`y` - `s`.`y`) <= 100 AND SQRT(POWER(`m`.`x` - `s`.`x`, 2) + POWER(`m`.`y` - `s`.`y`, 2)) <= 100 AND `s`.`_cell` = PMOD(FLOOR(`m`.`x` / 64.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`m`.`y` / 64.0D), 2147483648)
GROUP BY `m`.`_subscription`, `m`.`id`
) AS c
