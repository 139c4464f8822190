CREATE REPETITIVE CHANNEL Counts (least INT) PERIOD 10 SECONDS AS
  SELECT r.etype, count(*) AS n, :least AS least FROM EmergencyReports r
  WHERE is_new(r) AND r.severity >= :least GROUP BY r.etype HAVING n > 1;
