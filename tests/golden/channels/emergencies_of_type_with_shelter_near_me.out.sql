-- reads EmergencyReports, Shelters, UserLocations; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'etype', c.`etype`, 'x', c.`x`, 'y', c.`y`, 'severity', c.`severity`, 'message', c.`message`, 'shelter', c.`shelter`, 'shelter_metres', c.`shelter_metres`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`_candidates`) */ `_s`.`_subscription` AS _subscription,
  `_candidates`.`r.id` AS `id`, `_candidates`.`r.etype` AS `etype`, `_candidates`.`r.x` AS `x`, `_candidates`.`r.y` AS `y`, `_candidates`.`r.severity` AS `severity`, `_candidates`.`r.message` AS `message`, `s`.`name` AS `shelter`, SQRT(POWER(`s`.`x` - `_candidates`.`u.x`, 2) + POWER(`s`.`y` - `_candidates`.`u.y`, 2)) AS `shelter_metres`
FROM (
SELECT /*+ BROADCAST(`r`) */ `r`.`etype` AS `r.etype`, `u`.`user_id` AS `u.user_id`, `u`.`x` AS `u.x`, `u`.`y` AS `u.y`, `r`.`id` AS `r.id`, `r`.`x` AS `r.x`, `r`.`y` AS `r.y`, `r`.`severity` AS `r.severity`, `r`.`message` AS `r.message`
FROM (SELECT `r`.*, PMOD(PMOD(FLOOR(`r`.`x` / 1024.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`r`.`y` / 1024.0D), 2147483648) + _dy, 2147483648) AS _cell FROM new_EmergencyReports AS `r` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `r`
JOIN full_UserLocations AS `u`
  ON ABS(`r`.`x` - `u`.`x`) <= 2000.0 AND ABS(`r`.`y` - `u`.`y`) <= 2000.0 AND SQRT(POWER(`r`.`x` - `u`.`x`, 2) + POWER(`r`.`y` - `u`.`y`, 2)) <= 2000.0 AND `r`.`_cell` = PMOD(FLOOR(`u`.`x` / 1024.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`u`.`y` / 1024.0D), 2147483648)
) AS _candidates
JOIN subscriptions AS `_s`
  ON `_candidates`.`r.etype` = `_s`.`etype` AND `_candidates`.`u.user_id` = `_s`.`user_id`
JOIN (SELECT `s`.*, PMOD(PMOD(FLOOR(`s`.`x` / 512.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`s`.`y` / 512.0D), 2147483648) + _dy, 2147483648) AS _cell FROM full_Shelters AS `s` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `s`
  ON ABS(`s`.`x` - `_candidates`.`u.x`) <= 1000.0 AND ABS(`s`.`y` - `_candidates`.`u.y`) <= 1000.0 AND SQRT(POWER(`s`.`x` - `_candidates`.`u.x`, 2) + POWER(`s`.`y` - `_candidates`.`u.y`, 2)) <= 1000.0 AND `s`.`_cell` = PMOD(FLOOR(`_candidates`.`u.x` / 512.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`_candidates`.`u.y` / 512.0D), 2147483648)
) AS c
