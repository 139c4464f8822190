-- Somebody who leaves the area of a fire is told so: what a move touches is all results of the subscription.
CREATE CONTINUOUS CHANNEL AroundMe (user_id STRING IS USER, radius_m DOUBLE) ONCE PER (r.id) WITH EXITS AS
  SELECT r.id, r.severity FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :user_id
  WHERE (is_new(r) OR is_new(u)) AND within(r.x, r.y, u.x, u.y, :radius_m)
