CREATE REPETITIVE CHANNEL EmergenciesOfTypeNearMe (etype STRING, user_id STRING, radius_m DOUBLE) PERIOD 10 SECONDS AS
  SELECT r.*, distance(r.x, r.y, u.x, u.y) AS metres
  FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :user_id
  WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, u.x, u.y, :radius_m);
