CREATE REPETITIVE CHANNEL Moved (user_id STRING) PERIOD 10 SECONDS AS
  SELECT r.id FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :user_id
  WHERE (is_new(r) OR is_new(u)) AND within(r.x, r.y, u.x, u.y, 500);
