-- Keys that are no outputs, one of them a DOUBLE; and a LIMIT.
CREATE REPETITIVE CHANNEL WorstOfAZone (least INT) PERIOD 1 MINUTES ONCE PER (floor(r.x / 1000), r.y, upper(etype)) AS
  SELECT r.message, r.etype FROM EmergencyReports r WHERE is_new(r) AND r.severity >= :least
  ORDER BY r.severity DESC LIMIT 3
