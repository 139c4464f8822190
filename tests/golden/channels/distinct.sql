CREATE REPETITIVE CHANNEL Types (least INT) PERIOD 10 SECONDS AS
  SELECT DISTINCT r.etype FROM EmergencyReports r WHERE is_new(r) AND r.severity >= :least;
