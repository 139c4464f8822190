(SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'etype', c.`etype`, 'x', c.`x`, 'y', c.`y`, 'severity', c.`severity`, 'message', c.`message`, 'metres', c.`metres`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `r`.`etype` AS `etype`, `r`.`x` AS `x`, `r`.`y` AS `y`, `r`.`severity` AS `severity`, `r`.`message` AS `message`, SQRT(POWER(`r`.`x` - `_s`.`x`, 2) + POWER(`r`.`y` - `_s`.`y`, 2)) AS `metres`
FROM (SELECT `r`.*, PMOD(PMOD(FLOOR(`r`.`x` / 32768.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`r`.`y` / 32768.0D), 2147483648) + _dy, 2147483648) AS _cell FROM new_EmergencyReports AS `r` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `r`
JOIN (SELECT * FROM subscriptions WHERE (`radius_m` > 32767.9999999702D AND `radius_m` <= 65535.9999999404D)) AS `_s`
  ON ABS(`r`.`x` - `_s`.`x`) <= `_s`.`radius_m` AND ABS(`r`.`y` - `_s`.`y`) <= `_s`.`radius_m` AND SQRT(POWER(`r`.`x` - `_s`.`x`, 2) + POWER(`r`.`y` - `_s`.`y`, 2)) <= `_s`.`radius_m` AND `r`.`_cell` = PMOD(FLOOR(`_s`.`x` / 32768.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`_s`.`y` / 32768.0D), 2147483648)
) AS c)
UNION ALL
(SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'etype', c.`etype`, 'x', c.`x`, 'y', c.`y`, 'severity', c.`severity`, 'message', c.`message`, 'metres', c.`metres`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `r`.`etype` AS `etype`, `r`.`x` AS `x`, `r`.`y` AS `y`, `r`.`severity` AS `severity`, `r`.`message` AS `message`, SQRT(POWER(`r`.`x` - `_s`.`x`, 2) + POWER(`r`.`y` - `_s`.`y`, 2)) AS `metres`
FROM (SELECT `r`.*, PMOD(PMOD(FLOOR(`r`.`x` / 256.0D), 2147483648) + _dx, 2147483648) * 2147483648 + PMOD(PMOD(FLOOR(`r`.`y` / 256.0D), 2147483648) + _dy, 2147483648) AS _cell FROM new_EmergencyReports AS `r` LATERAL VIEW explode(sequence(-2, 2)) _xs AS _dx LATERAL VIEW explode(sequence(-2, 2)) _ys AS _dy) AS `r`
JOIN (SELECT * FROM subscriptions WHERE (`radius_m` > 255.9999999997672D AND `radius_m` <= 511.9999999995344D)) AS `_s`
  ON ABS(`r`.`x` - `_s`.`x`) <= `_s`.`radius_m` AND ABS(`r`.`y` - `_s`.`y`) <= `_s`.`radius_m` AND SQRT(POWER(`r`.`x` - `_s`.`x`, 2) + POWER(`r`.`y` - `_s`.`y`, 2)) <= `_s`.`radius_m` AND `r`.`_cell` = PMOD(FLOOR(`_s`.`x` / 256.0D), 2147483648) * 2147483648 + PMOD(FLOOR(`_s`.`y` / 256.0D), 2147483648)
) AS c)
UNION ALL
(SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'etype', c.`etype`, 'x', c.`x`, 'y', c.`y`, 'severity', c.`severity`, 'message', c.`message`, 'metres', c.`metres`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`_s`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `r`.`etype` AS `etype`, `r`.`x` AS `x`, `r`.`y` AS `y`, `r`.`severity` AS `severity`, `r`.`message` AS `message`, SQRT(POWER(`r`.`x` - `_s`.`x`, 2) + POWER(`r`.`y` - `_s`.`y`, 2)) AS `metres`
FROM (SELECT * FROM subscriptions WHERE NOT ((`radius_m` > 32767.9999999702D AND `radius_m` <= 65535.9999999404D) OR (`radius_m` > 255.9999999997672D AND `radius_m` <= 511.9999999995344D))) AS `_s`
JOIN new_EmergencyReports AS `r`
  ON ABS(`r`.`x` - `_s`.`x`) <= `_s`.`radius_m` AND ABS(`r`.`y` - `_s`.`y`) <= `_s`.`radius_m` AND SQRT(POWER(`r`.`x` - `_s`.`x`, 2) + POWER(`r`.`y` - `_s`.`y`, 2)) <= `_s`.`radius_m`
) AS c)
