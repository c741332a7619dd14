import type { WorkspaceAgentListContainersResponse } from '@ropewalk/contract';
import { useEffect, useState } from 'react';

const FIRST_RETRY_MS = 2_000;
const LONGEST_RETRY_MS = 60_000;

/** The containers of an agent as they change. Undefined until the agent has reported them. */
export function useContainers(agentId: string): WorkspaceAgentListContainersResponse | undefined {
  const [list, setList] = useState<WorkspaceAgentListContainersResponse>();
  useEffect(() => {
    let socket: WebSocket | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let retryMs = FIRST_RETRY_MS;
    const open = () => {
      const address = new URL(`/api/v2/workspaceagents/${agentId}/containers/watch`, location.href);
      address.protocol = address.protocol.replace('http', 'ws');
      const current = new WebSocket(address);
      socket = current;
      current.onmessage = ({ data }) => {
        retryMs = FIRST_RETRY_MS;
        setList(JSON.parse(String(data)) as WorkspaceAgentListContainersResponse);
      };
      // an agent of an earlier version does not report containers
      current.onclose = () => {
        if (socket !== current) return;
        timer = setTimeout(open, retryMs);
        retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
      };
    };
    open();
    return () => {
      const current = socket;
      socket = undefined;
      current?.close();
      clearTimeout(timer);
    };
  }, [agentId]);
  return list;
}
