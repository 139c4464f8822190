-- reads EmergencyReports; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('etype', c.`etype`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`r`) */ DISTINCT `_s`.`_subscription` AS _subscription,
  `r`.`etype` AS `etype`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`severity` >= `_s`.`least`
) AS c
