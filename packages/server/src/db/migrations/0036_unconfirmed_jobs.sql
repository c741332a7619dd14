-- A daemon of ours has taken the job and not reported on it yet. It begins the job only after the answer to its first
-- report, so the job may go back to the queue.
ALTER TABLE provisioner_jobs ADD COLUMN unconfirmed boolean NOT NULL DEFAULT false;
