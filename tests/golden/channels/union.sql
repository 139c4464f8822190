CREATE REPETITIVE CHANNEL Either (etype STRING, user_id STRING) PERIOD 10 SECONDS AS
  SELECT r.id FROM EmergencyReports r WHERE is_new(r) AND r.etype = :etype
  UNION ALL SELECT u.user_id FROM UserLocations u WHERE is_new(u) AND u.user_id = :user_id;
