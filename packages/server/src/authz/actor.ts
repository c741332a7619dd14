import type { UserWithAccess } from '../db/queries/users.ts';

/** A signed-in person. */
export interface UserActor {
  kind: 'user';
  id: string;
  username: string;
  email: string;
  /** Site roles. `member` is implied. */
  roles: string[];
  /** Organization id → roles in it. `organization-member` is implied. */
  organizations: Map<string, string[]>;
  /** Ids of the person's groups, without the group Everyone of each organization. */
  groups: ReadonlySet<string>;
  scope: 'all' | 'application_connect';
  apiKeyId: string;
  /** The account when the session was verified, a few seconds ago at most. An event announces changes. */
  account?: UserWithAccess;
}

/** The actor of a request. `system` is the server itself (daemons, background tasks), never a request. */
export type Actor = UserActor | { kind: 'system'; name: string } | { kind: 'none' };
