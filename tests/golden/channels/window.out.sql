-- reads EmergencyReports; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'place', c.`place`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, RANK() OVER (PARTITION BY `_s`.`_subscription`, `r`.`etype` ORDER BY `r`.`severity` DESC) AS `place`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`severity` >= `_s`.`least`
) AS c
