-- A union's rows have nothing but outputs.
CREATE REPETITIVE CHANNEL Anything (etype STRING) PERIOD 1 MINUTES ONCE PER (what) AS
  SELECT r.message AS what FROM EmergencyReports r WHERE is_new(r) AND r.etype = :etype
  UNION SELECT s.name FROM Shelters s
