-- reads EmergencyReports, Shelters; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('what', c.`what`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload,
  if(octet_length(to_json(named_struct('0', c.`what`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX'))) > 200, sha2(to_json(named_struct('0', c.`what`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')), 256), to_json(named_struct('0', c.`what`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX'))) AS key
FROM (
(SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`message` AS `what`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`etype` = `_s`.`etype`)
UNION
(SELECT `_s`.`_subscription` AS _subscription,
  `s`.`name` AS `name`
FROM full_Shelters AS `s`
CROSS JOIN subscriptions AS `_s`)
) AS c
