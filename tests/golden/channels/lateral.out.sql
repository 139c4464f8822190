-- reads EmergencyReports; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('id', c.`id`, 'score', c.`score`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload
FROM (
SELECT `_s`.`_subscription` AS _subscription,
  `r`.`id` AS `id`, `l`.`score` AS `score`
FROM subscriptions AS `_s`
CROSS JOIN new_EmergencyReports AS `r`
CROSS JOIN LATERAL (SELECT `r`.`severity` * `_s`.`least` AS `score`) AS `l`
) AS c
