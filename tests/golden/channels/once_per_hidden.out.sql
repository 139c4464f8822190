-- reads EmergencyReports; runs over EmergencyReports
SELECT c._subscription AS subscription,
  to_json(named_struct('message', c.`message`, 'etype', c.`etype`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')) AS payload,
  if(octet_length(to_json(named_struct('0', c.`_key0`, '1', if(c.`_key1` = 0, 0D, c.`_key1`), '2', c.`_key2`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX'))) > 200, sha2(to_json(named_struct('0', c.`_key0`, '1', if(c.`_key1` = 0, 0D, c.`_key1`), '2', c.`_key2`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX')), 256), to_json(named_struct('0', c.`_key0`, '1', if(c.`_key1` = 0, 0D, c.`_key1`), '2', c.`_key2`), map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX'))) AS key
FROM (
SELECT _subscription, `message`, `etype`, `_key0`, `_key1`, `_key2`
FROM (
SELECT /*+ BROADCAST(`r`) */ `_s`.`_subscription` AS _subscription,
  `r`.`message` AS `message`, `r`.`etype` AS `etype`, FLOOR(`r`.`x` / 1000) AS `_key0`, `r`.`y` AS `_key1`, UPPER(`r`.`etype`) AS `_key2`, ROW_NUMBER() OVER (PARTITION BY `_s`.`_subscription` ORDER BY `r`.`severity` DESC) AS `_rank`
FROM new_EmergencyReports AS `r`
JOIN subscriptions AS `_s`
  ON `r`.`severity` >= `_s`.`least`
) AS _ranked
WHERE _rank <= 3
) AS c
