import type { Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Eye, EyeOff } from 'lucide-react';
import { useState } from 'react';
import { apiQuery } from '../../../api/query.ts';
import { IconButton } from '../../../ui/button.tsx';
import { CopyButton } from '../../../ui/copy.tsx';
import { QueryView } from '../../../ui/states.tsx';

const credentialsQuery = (workspace: string, agent: string) =>
  apiQuery('GET /workspaces/{workspace}/external-agent/{agent}/credentials', [{ kind: 'workspace', id: workspace }], {
    params: { workspace, agent },
  });

/** The token in a command is a secret: people share their screens. */
const withoutToken = (command: string, token: string) => command.replaceAll(token, '••••••••');

/** The command that connects a machine as this agent. Only for people who may connect to the workspace. */
export function ExternalAgentCommand({ workspace, agent }: { workspace: Workspace; agent: WorkspaceAgent }) {
  const credentials = useQuery(credentialsQuery(workspace.id, agent.name));
  const [shown, setShown] = useState(false);
  return (
    <div className="flex flex-col gap-2 px-4 pb-4">
      <p>Run this command in a shell on the machine that becomes the workspace:</p>
      <QueryView query={credentials} loading={<div className="h-9 rounded-md border border-line bg-sunken" />}>
        {({ command, agent_token: token }) => (
          <div className="flex min-w-0 items-center gap-1 rounded-md border border-line bg-sunken py-1 pr-1 pl-3">
            <code className="min-w-0 flex-1 break-all py-0.5 font-mono text-sm">
              {shown ? command : withoutToken(command, token)}
            </code>
            <IconButton
              icon={shown ? EyeOff : Eye}
              size="sm"
              label={shown ? 'Hide the token' : 'Show the token'}
              onClick={() => setShown(!shown)}
            />
            <CopyButton text={command} label="Copy the command" />
          </div>
        )}
      </QueryView>
    </div>
  );
}
