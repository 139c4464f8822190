-- reads EmergencyReports; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'etype', c.`etype`, 'x', c.`x`, 'y', c.`y`, 'severity', c.`severity`, 'message', c.`message`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `r`.`etype` AS `etype`, `r`.`x` AS `x`, `r`.`y` AS `y`, `r`.`severity` AS `severity`, `r`.`message` AS `message`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`etype` = `_s`.`etype`
) AS c
