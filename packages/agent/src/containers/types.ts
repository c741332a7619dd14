// The shapes of dev containers and containers as the server's API describes them.

export interface ContainerPort {
  port: number;
  network: string;
  /** Where Docker publishes the port. Empty and 0 if it does not. */
  host_ip: string;
  host_port: number;
}

export interface Container {
  id: string;
  name: string;
  created_at: string;
  image: string;
  labels: Record<string, string>;
  running: boolean;
  status: string;
  ports: ContainerPort[];
  /** Paths on the machine, and where they are in the container. */
  volumes: Record<string, string>;
}

export type DevcontainerStatus = 'running' | 'stopped' | 'starting' | 'error';

export interface Devcontainer {
  id: string;
  name: string;
  workspace_folder: string;
  config_path?: string;
  /** The agent of it that the template declares. */
  subagent_id?: string;
  status: DevcontainerStatus;
  /** Whether the configuration has changed since the container was created. */
  dirty: boolean;
  container?: Container;
  agent?: { id: string; name: string; directory: string };
  error?: string;
}

export interface ContainerList {
  containers: Container[];
  devcontainers: Devcontainer[];
  warnings?: string[];
}
