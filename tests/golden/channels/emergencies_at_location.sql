CREATE REPETITIVE CHANNEL EmergenciesAtLocation (x DOUBLE, y DOUBLE, radius_m DOUBLE) PERIOD 20 SECONDS AS
  SELECT r.*, distance(r.x, r.y, :x, :y) AS metres
  FROM EmergencyReports r
  WHERE is_new(r) AND within(r.x, r.y, :x, :y, :radius_m);
