-- reads EmergencyReports; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('n', c.`n`, 'worst', c.`worst`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT `_s`.`_subscription` AS _subscription,
  COUNT(`_rows`.`_subscription`) AS `n`, MAX(`_rows`.`_a0`) AS `worst`
FROM subscriptions AS `_s`
LEFT JOIN (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`severity` AS `_a0`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`etype` = `_s`.`etype`
) AS `_rows`
  ON `_rows`.`_subscription` = `_s`.`_subscription`
GROUP BY `_s`.`_subscription`
) AS c
