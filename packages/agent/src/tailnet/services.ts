import type { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import type { Activity } from '../activity.ts';
import type { Devcontainers } from '../containers/devcontainers.ts';
import type { Service } from '../services/service.ts';
import type { SshServer } from '../ssh/server.ts';

/** What clients reach over the tailnet. */
export interface TailnetServices {
  ssh: Pick<SshServer, 'serve'>;
  pty: Service;
  devcontainers: Pick<Devcontainers, 'list' | 'refresh' | 'onChange' | 'recreate'>;
  activity: Activity;
  /** The sessions of tunnels, which may continue over the tailnet. */
  sessions: Pick<ResumableSessions, 'attach'>;
}
