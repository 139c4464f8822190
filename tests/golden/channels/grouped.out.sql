-- reads EmergencyReports; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('etype', c.`etype`, 'n', c.`n`, 'least', c.`least`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`etype` AS `etype`, COUNT(*) AS `n`, `_s`.`least` AS `least`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`severity` >= `_s`.`least`
GROUP BY `_s`.`_subscription`, `_s`.`least`, `r`.`etype`
HAVING COUNT(*) > 1
) AS c
