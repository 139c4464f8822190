-- reads EmergencyReports, UserLocations; runs over EmergencyReports, UserLocations
(SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'severity', c.`severity`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload,
  if(octet_length(to_json(named_struct('0', c.`id`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX'))) > 200, sha2(to_json(named_struct('0', c.`id`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')), 256), to_json(named_struct('0', c.`id`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX'))) AS key
FROM (
(SELECT /*+ BROADCAST(`_candidates`) */ `_s`.`_subscription` AS _subscription,
  `_candidates`.`r.id` AS `id`, `_candidates`.`r.severity` AS `severity`
FROM (
SELECT /*+ BROADCAST(`r`) */ `r`.`x` AS `r.x`, `r`.`y` AS `r.y`, `u`.`x` AS `u.x`, `u`.`y` AS `u.y`, `u`.`user_id` AS `u.user_id`, `r`.`id` AS `r.id`, `r`.`severity` AS `r.severity`
FROM (SELECT `r`.*, PMOD(PMOD(FLOOR(`r`.`x` / 256.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`r`.`y` / 256.0D), 2147483648) + _dy, 2147483648) AS _cell FROM new_EmergencyReports AS `r` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `r`
JOIN full_UserLocations AS `u`
  ON `r`.`_cell` = PMOD(FLOOR(`u`.`x` / 256.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`u`.`y` / 256.0D), 2147483648)
) AS _candidates
JOIN subscriptions AS `_s`
  ON ABS(`_candidates`.`r.x` - `_candidates`.`u.x`) <= `_s`.`radius_m` AND ABS(`_candidates`.`r.y` - `_candidates`.`u.y`) <= `_s`.`radius_m` AND SQRT(POWER(`_candidates`.`r.x` - `_candidates`.`u.x`, 2) + POWER(`_candidates`.`r.y` - `_candidates`.`u.y`, 2)) <= `_s`.`radius_m` AND `_candidates`.`u.user_id` = `_s`.`user_id`)
UNION ALL
(SELECT /*+ BROADCAST(`u`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `r`.`severity` AS `severity`
FROM (SELECT `u`.*, PMOD(PMOD(FLOOR(`u`.`x` / 256.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`u`.`y` / 256.0D), 2147483648) + _dy, 2147483648) AS _cell FROM new_UserLocations AS `u` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `u`
JOIN subscriptions AS `_s`
  ON `u`.`user_id` = `_s`.`user_id`
JOIN full_EmergencyReports AS `r`
  ON ABS(`r`.`x` - `u`.`x`) <= `_s`.`radius_m` AND ABS(`r`.`y` - `u`.`y`) <= `_s`.`radius_m` AND SQRT(POWER(`r`.`x` - `u`.`x`, 2) + POWER(`r`.`y` - `u`.`y`, 2)) <= `_s`.`radius_m` AND `u`.`_cell` = PMOD(FLOOR(`r`.`x` / 256.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`r`.`y` / 256.0D), 2147483648))
) AS c)
UNION ALL
(SELECT c._subscription AS subscription, CAST(NULL AS STRING) AS payload, CAST(NULL AS STRING) AS key
FROM (
SELECT /*+ BROADCAST(`u`) */ `_s`.`_subscription` AS _subscription,
  TRUE AS `_any`
FROM new_UserLocations AS `u`
JOIN subscriptions AS `_s`
  ON `u`.`user_id` = `_s`.`user_id`
) AS c)
