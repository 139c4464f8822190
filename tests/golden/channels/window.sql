CREATE REPETITIVE CHANNEL Ranked (least INT) PERIOD 10 SECONDS AS
  SELECT r.id, rank() OVER (PARTITION BY r.etype ORDER BY r.severity DESC) AS place
  FROM EmergencyReports r WHERE is_new(r) AND r.severity >= :least;
