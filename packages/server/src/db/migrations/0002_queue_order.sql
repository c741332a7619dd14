-- The queue's order, and a way to find the jobs of a tag set without reading those of others.

ALTER TABLE provisioner_jobs
  -- Of equal tag sets equal: a daemon looks up the few sets that it may run, however many others wait.
  ADD COLUMN tags_hash bigint NOT NULL GENERATED ALWAYS AS (jsonb_hash_extended(tags, 0)) STORED,
  -- Nobody waits for it: after every job that somebody waits for.
  ADD COLUMN background boolean NOT NULL DEFAULT false,
  -- Rounds of a round robin between users: see insertJob.
  ADD COLUMN turn bigint NOT NULL DEFAULT 0;

DROP INDEX provisioner_jobs_pending;
CREATE INDEX provisioner_jobs_queue ON provisioner_jobs (organization_id, tags_hash, background, turn, created_at)
  WHERE started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL;
CREATE INDEX provisioner_jobs_queue_of_user ON provisioner_jobs (organization_id, tags_hash, initiator_id, turn)
  WHERE started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL;
CREATE INDEX provisioner_jobs_turns ON provisioner_jobs (organization_id, turn)
  WHERE started_at IS NOT NULL AND completed_at IS NULL;
