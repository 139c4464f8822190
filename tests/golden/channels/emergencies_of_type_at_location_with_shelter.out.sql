-- reads EmergencyReports, Shelters; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'etype', c.`etype`, 'x', c.`x`, 'y', c.`y`, 'severity', c.`severity`, 'message', c.`message`, 'shelter', c.`shelter`, 'shelter_metres', c.`shelter_metres`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `r`.`etype` AS `etype`, `r`.`x` AS `x`, `r`.`y` AS `y`, `r`.`severity` AS `severity`, `r`.`message` AS `message`, `s`.`name` AS `shelter`, SQRT(POWER(`s`.`x` - `_s`.`x`, 2) + POWER(`s`.`y` - `_s`.`y`, 2)) AS `shelter_metres`
FROM (SELECT `r`.*, PMOD(PMOD(FLOOR(`r`.`x` / 1024.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`r`.`y` / 1024.0D), 2147483648) + _dy, 2147483648) AS _cell FROM new_EmergencyReports AS `r` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`etype` = `_s`.`etype` AND ABS(`r`.`x` - `_s`.`x`) <= 2000.0 AND ABS(`r`.`y` - `_s`.`y`) <= 2000.0 AND SQRT(POWER(`r`.`x` - `_s`.`x`, 2) + POWER(`r`.`y` - `_s`.`y`, 2)) <= 2000.0 AND `r`.`_cell` = PMOD(FLOOR(`_s`.`x` / 1024.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`_s`.`y` / 1024.0D), 2147483648)
JOIN (SELECT `s`.*, PMOD(PMOD(FLOOR(`s`.`x` / 512.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`s`.`y` / 512.0D), 2147483648) + _dy, 2147483648) AS _cell FROM full_Shelters AS `s` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `s`
  ON ABS(`s`.`x` - `_s`.`x`) <= 1000.0 AND ABS(`s`.`y` - `_s`.`y`) <= 1000.0 AND SQRT(POWER(`s`.`x` - `_s`.`x`, 2) + POWER(`s`.`y` - `_s`.`y`, 2)) <= 1000.0 AND `s`.`_cell` = PMOD(FLOOR(`_s`.`x` / 512.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`_s`.`y` / 512.0D), 2147483648)
) AS c
