-- A person's pending jobs are counted, and the round that a newcomer joins is that of the same daemons.

DROP INDEX provisioner_jobs_queue_of_user;
CREATE INDEX provisioner_jobs_queue_of_user ON provisioner_jobs (initiator_id, organization_id, tags_hash, turn)
  WHERE started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL;
DROP INDEX provisioner_jobs_turns;
CREATE INDEX provisioner_jobs_turns ON provisioner_jobs (organization_id, tags_hash, background, turn)
  WHERE started_at IS NOT NULL AND completed_at IS NULL;
