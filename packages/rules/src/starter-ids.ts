// The ids of the starter templates. Each is a folder in examples/.

/** The ids of the starter templates. The ones that need the least before their first workspace are first. */
export const STARTERS: readonly string[] = [
  // nothing
  'quickstart',
  'local',
  // a Docker host
  'docker',
  'docker-devcontainer',
  'docker-envbuilder',
  'tasks-docker',
  // a cluster, or a host of containers
  'kubernetes',
  'kubernetes-devcontainer',
  'kubernetes-envbox',
  'incus',
  'nomad-docker',
  // an account at a cloud provider
  'digitalocean-linux',
  'aws-linux',
  'aws-devcontainer',
  'aws-windows',
  'gcp-linux',
  'gcp-devcontainer',
  'gcp-vm-container',
  'gcp-windows',
  'azure-linux',
  'azure-windows',
  // the author's own work
  'scratch',
];

/** Ids of earlier releases. They are not listed, but work wherever a person or a link gives an id. */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ['digitalocean', 'digitalocean-linux'],
  ['nomad', 'nomad-docker'],
]);

/** The id under which a starter template is listed today. Ids that never existed stay as they are. */
export const currentStarterId = (id: string): string => RENAMED.get(id) ?? id;
