-- A message to one person by one method. A server that sends one holds a lease on it, so that another server takes over
-- if it dies.
CREATE TABLE notification_messages (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  template_id uuid NOT NULL,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  method text NOT NULL CHECK (method IN ('smtp', 'webhook', 'inbox')),
  -- Emptied when the message is sent: they may contain a passcode.
  labels jsonb NOT NULL,
  targets uuid[] NOT NULL DEFAULT '{}',
  -- Names what happened. A person gets each event once by each method.
  event text NOT NULL,
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'leased', 'sent', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  lease uuid,
  last_error text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (event, user_id, template_id, method)
);
-- A leased message is due again when its lease ends.
CREATE INDEX notification_messages_due ON notification_messages (method, next_attempt_at)
  WHERE status IN ('pending', 'leased');
CREATE INDEX notification_messages_old ON notification_messages (updated_at) WHERE status IN ('sent', 'failed');

CREATE TABLE inbox_notifications (
  -- of the message
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  template_id uuid NOT NULL,
  targets uuid[] NOT NULL DEFAULT '{}',
  title text NOT NULL,
  content text NOT NULL,
  icon text NOT NULL DEFAULT '',
  actions jsonb NOT NULL DEFAULT '[]',
  read_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX inbox_notifications_user ON inbox_notifications (user_id, created_at DESC, id DESC);
CREATE INDEX inbox_notifications_unread ON inbox_notifications (user_id) WHERE read_at IS NULL;

CREATE TABLE notification_preferences (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  template_id uuid NOT NULL,
  disabled boolean NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (user_id, template_id)
);

-- The method that administrators chose for a template, in place of the deployment's default.
CREATE TABLE notification_template_methods (
  template_id uuid PRIMARY KEY,
  method text NOT NULL
);

-- A code that was sent by mail to set a new password, as its hash.
ALTER TABLE users
  ADD COLUMN one_time_passcode_hash bytea,
  ADD COLUMN one_time_passcode_expires_at timestamptz;
