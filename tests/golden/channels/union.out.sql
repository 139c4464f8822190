-- reads EmergencyReports, UserLocations; runs over EmergencyReports, UserLocations
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
(SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`etype` = `_s`.`etype`)
UNION ALL
(SELECT /*+ BROADCAST(`u`) */ `_s`.`_subscription` AS _subscription,
  `u`.`user_id` AS `user_id`
FROM new_UserLocations AS `u`
JOIN subscriptions AS `_s`
  ON `u`.`user_id` = `_s`.`user_id`)
) AS c
