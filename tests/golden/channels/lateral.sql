CREATE REPETITIVE CHANNEL Scored (least INT) PERIOD 10 SECONDS AS
  SELECT r.id, l.score FROM EmergencyReports r, LATERAL (SELECT r.severity * :least AS score) l WHERE is_new(r);
