-- Somebody who walks into the area of a fire is notified of it once a day.
CREATE CONTINUOUS CHANNEL WalkedInto (user_id STRING IS USER, radius_m DOUBLE) ONCE PER (r.id) WITHIN 1 DAY AS
  SELECT r.*, distance(r.x, r.y, u.x, u.y) AS metres, is_new(r) AS is_fresh
  FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :user_id
  WHERE (is_new(r) OR is_new(u)) AND within(r.x, r.y, u.x, u.y, :radius_m)
