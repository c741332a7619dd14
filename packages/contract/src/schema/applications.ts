import { type Static, Type } from 'typebox';
import { WorkspaceAgentPortShareLevel } from './common.ts';
import { Address, Line, named, stringEnum, Uuid } from './kit.ts';

export const WorkspaceAgentPortShareProtocol = named('WorkspaceAgentPortShareProtocol', stringEnum(['http', 'https']));
export type WorkspaceAgentPortShareProtocol = Static<typeof WorkspaceAgentPortShareProtocol>;

export const WorkspaceAgentPortShare = named(
  'WorkspaceAgentPortShare',
  Type.Object({
    agent_name: Type.String(),
    port: Type.Integer(),
    protocol: WorkspaceAgentPortShareProtocol,
    share_level: WorkspaceAgentPortShareLevel,
    workspace_id: Uuid,
  }),
);
export type WorkspaceAgentPortShare = Static<typeof WorkspaceAgentPortShare>;

export const WorkspaceAgentPortShares = named(
  'WorkspaceAgentPortShares',
  Type.Object({ shares: Type.Array(WorkspaceAgentPortShare) }),
);
export type WorkspaceAgentPortShares = Static<typeof WorkspaceAgentPortShares>;

export const UpsertWorkspaceAgentPortShareRequest = named(
  'UpsertWorkspaceAgentPortShareRequest',
  Type.Object({
    agent_name: Line,
    port: Type.Integer({ minimum: 0, maximum: 65_535 }),
    protocol: WorkspaceAgentPortShareProtocol,
    share_level: WorkspaceAgentPortShareLevel,
  }),
);
export type UpsertWorkspaceAgentPortShareRequest = Static<typeof UpsertWorkspaceAgentPortShareRequest>;

export const DeleteWorkspaceAgentPortShareRequest = named(
  'DeleteWorkspaceAgentPortShareRequest',
  Type.Object({ agent_name: Line, port: Type.Integer({ minimum: 0, maximum: 65_535 }) }),
);
export type DeleteWorkspaceAgentPortShareRequest = Static<typeof DeleteWorkspaceAgentPortShareRequest>;

export const IssueReconnectingPTYSignedTokenRequest = named(
  'IssueReconnectingPTYSignedTokenRequest',
  Type.Object({ agentID: Uuid, url: Address }),
);
export type IssueReconnectingPTYSignedTokenRequest = Static<typeof IssueReconnectingPTYSignedTokenRequest>;

export const IssueReconnectingPTYSignedTokenResponse = named(
  'IssueReconnectingPTYSignedTokenResponse',
  Type.Object({ signed_token: Type.String() }),
);
export type IssueReconnectingPTYSignedTokenResponse = Static<typeof IssueReconnectingPTYSignedTokenResponse>;
