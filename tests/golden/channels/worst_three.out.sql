-- reads EmergencyReports; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'severity', c.`severity`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT _subscription, `id`, `severity`
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `r`.`severity` AS `severity`, ROW_NUMBER() OVER (PARTITION BY `_s`.`_subscription` ORDER BY (`r`.`severity`) DESC) AS `_rank`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`etype` = `_s`.`etype`
) AS _ranked
WHERE _rank <= 3
) AS c
