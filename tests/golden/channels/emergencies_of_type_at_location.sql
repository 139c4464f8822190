CREATE REPETITIVE CHANNEL EmergenciesOfTypeAtLocation (etype STRING, x DOUBLE, y DOUBLE, radius_m DOUBLE)
  PERIOD 30 SECONDS AS
  SELECT r.*, distance(r.x, r.y, :x, :y) AS metres
  FROM EmergencyReports r
  WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, :x, :y, :radius_m);
