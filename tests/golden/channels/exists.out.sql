-- reads EmergencyReports; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`
FROM new_EmergencyReports AS `r`
CROSS JOIN subscriptions AS `_s`
WHERE EXISTS(SELECT 1 AS `column1` FROM full_EmergencyReports AS `q` WHERE `q`.`etype` = `_s`.`etype` AND `q`.`message` = `r`.`message`)
) AS c
