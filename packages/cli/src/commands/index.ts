import type { Node } from '../framework/context.ts';

type Nodes = Readonly<Record<string, Node>>;

/** Puts commands below a heading of the main help. */
function grouped(group: string, nodes: Nodes): Nodes {
  return Object.fromEntries(Object.entries(nodes).map(([name, node]) => [name, { ...node, group }]));
}

const account: Nodes = {
  login: {
    summary: 'Log in to a server',
    load: () => import('./session/login.ts'),
    children: {
      token: { summary: 'Print the session token', load: () => import('./session/login-token.ts') },
    },
  },
  logout: { summary: 'Log out of the server', load: () => import('./session/logout.ts') },
  whoami: { summary: 'Show the user who is logged in', load: () => import('./session/whoami.ts') },
  publickey: {
    summary: 'Show the public key that Git uses in your workspaces',
    aliases: ['pubkey'],
    load: () => import('./users/publickey.ts'),
  },
  secret: {
    summary: 'Manage secrets for your workspaces',
    aliases: ['secrets'],
    examples: [
      {
        does: 'Set a variable in your workspaces',
        run: 'printf %s "$KEY" | coder secret create api-key --env API_KEY',
      },
      { does: 'Write a file in your workspaces', run: 'coder secret create netrc --file "~/.netrc" < ~/.netrc' },
      { does: 'Import secrets from a file', run: 'coder secret import secrets.env' },
    ],
    children: {
      create: { summary: 'Create a secret', load: () => import('./secrets/create.ts') },
      update: { summary: 'Change a secret', load: () => import('./secrets/update.ts') },
      list: { summary: 'List secrets, or show one', aliases: ['ls'], load: () => import('./secrets/list.ts') },
      enable: { summary: 'Give a secret to your workspaces', load: () => import('./secrets/enable.ts') },
      disable: { summary: 'Keep a secret without using it', load: () => import('./secrets/disable.ts') },
      import: { summary: 'Create secrets from a file', load: () => import('./secrets/import.ts') },
      delete: { summary: 'Delete a secret', aliases: ['remove', 'rm'], load: () => import('./secrets/delete.ts') },
    },
  },
};

const sharing: Node = {
  summary: 'Share workspaces with other people',
  aliases: ['share'],
  children: {
    add: {
      summary: 'Share a workspace with people and groups',
      aliases: ['share'],
      load: () => import('./sharing/add.ts'),
    },
    remove: {
      summary: 'Take a workspace back from people and groups',
      aliases: ['unshare', 'rm'],
      load: () => import('./sharing/remove.ts'),
    },
    status: {
      summary: 'Show the people and groups that a workspace is shared with',
      aliases: ['list', 'ls'],
      load: () => import('./sharing/status.ts'),
    },
  },
};

const schedule: Node = {
  summary: 'Start and stop workspaces at set times',
  children: {
    extend: {
      summary: 'Postpone the next stop of a running workspace',
      aliases: ['override-stop'],
      load: () => import('./schedule/extend.ts'),
    },
    show: { summary: 'Show the schedules of workspaces', load: () => import('./schedule/show.ts') },
    start: { summary: 'Set when a workspace starts', load: () => import('./schedule/start.ts') },
    stop: { summary: 'Set how long a workspace runs before it stops', load: () => import('./schedule/stop.ts') },
  },
};

const workspaces: Nodes = {
  create: { summary: 'Create a workspace', load: () => import('./workspaces/create.ts') },
  list: { summary: 'List workspaces', aliases: ['ls'], load: () => import('./workspaces/list.ts') },
  'external-workspaces': {
    summary: 'Create and list workspaces on machines that templates do not create',
    children: {
      create: { summary: 'Create an external workspace', load: () => import('./external-workspaces/create.ts') },
      list: {
        summary: 'List external workspaces',
        aliases: ['ls'],
        load: () => import('./external-workspaces/list.ts'),
      },
      'agent-instructions': {
        summary: 'Show the command that starts an external agent',
        load: () => import('./external-workspaces/agent-instructions.ts'),
      },
    },
  },
  show: { summary: 'Show the resources and agents of a workspace', load: () => import('./workspaces/show.ts') },
  logs: { summary: 'Show the logs of a workspace', load: () => import('./workspaces/logs.ts') },
  start: { summary: 'Start a workspace', load: () => import('./workspaces/start.ts') },
  stop: { summary: 'Stop a workspace', load: () => import('./workspaces/stop.ts') },
  restart: { summary: 'Stop and start a workspace', load: () => import('./workspaces/restart.ts') },
  update: {
    summary: "Rebuild a workspace with its template's active version",
    load: () => import('./workspaces/update.ts'),
  },
  delete: { summary: 'Delete a workspace', aliases: ['rm'], load: () => import('./workspaces/delete.ts') },
  rename: { summary: 'Rename a workspace', load: () => import('./workspaces/rename.ts') },
  schedule,
  sharing,
  autoupdate: {
    summary: 'Set whether a workspace updates when it starts',
    load: () => import('./workspaces/autoupdate.ts'),
  },
  favorite: {
    summary: 'Mark a workspace as a favorite',
    aliases: ['fav', 'favourite'],
    load: () => import('./workspaces/favorite.ts'),
  },
  unfavorite: {
    summary: 'Remove a workspace from your favorites',
    aliases: ['unfav', 'unfavourite'],
    load: () => import('./workspaces/unfavorite.ts'),
  },
  state: {
    summary: 'Read and replace the Terraform state of a workspace',
    children: {
      pull: { summary: 'Print the state or write it to a file', load: () => import('./state/pull.ts') },
      push: { summary: 'Replace the state and rebuild the workspace', load: () => import('./state/push.ts') },
    },
  },
};

const connect: Nodes = {
  ssh: { summary: 'Open a shell or run a command in a workspace', load: () => import('./workspaces/ssh.ts') },
  'config-ssh': {
    summary: 'Add your workspaces to the SSH configuration',
    load: () => import('./config-ssh/index.ts'),
  },
  'port-forward': {
    summary: 'Forward ports of a workspace to this machine',
    aliases: ['tunnel'],
    load: () => import('./port-forward/index.ts'),
  },
  open: {
    summary: 'Open a workspace in an editor or an app in the browser',
    children: {
      app: { summary: 'Open an app of a workspace in the browser', load: () => import('./open/app.ts') },
      vscode: { summary: 'Open a workspace in Visual Studio Code', load: () => import('./open/vscode.ts') },
    },
  },
  ping: { summary: 'Measure the round-trip time to a workspace', load: () => import('./network/ping.ts') },
  speedtest: { summary: 'Measure the throughput to a workspace', load: () => import('./network/speedtest.ts') },
  netcheck: { summary: 'Check the connection to the server', load: () => import('./network/netcheck.ts') },
};

const templates: Node = {
  summary: 'Manage templates',
  aliases: ['template'],
  children: {
    init: { summary: 'Write an example template to a directory', load: () => import('./templates/init.ts') },
    push: {
      summary: 'Create or update a template from a directory',
      load: () => import('./templates/push.ts'),
    },
    list: { summary: 'List templates', aliases: ['ls'], load: () => import('./templates/list.ts') },
    edit: { summary: 'Change the settings of a template', load: () => import('./templates/edit.ts') },
    pull: { summary: 'Download the files of a template', load: () => import('./templates/pull.ts') },
    delete: { summary: 'Delete templates', aliases: ['rm'], load: () => import('./templates/delete.ts') },
    versions: {
      summary: 'Manage the versions of a template',
      aliases: ['version'],
      children: {
        archive: { summary: 'Archive versions', load: () => import('./templates/versions-archive.ts') },
        list: { summary: 'List versions', aliases: ['ls'], load: () => import('./templates/versions-list.ts') },
        promote: {
          summary: 'Make a version the active version',
          load: () => import('./templates/versions-promote.ts'),
        },
        unarchive: { summary: 'Restore archived versions', load: () => import('./templates/versions-unarchive.ts') },
      },
    },
    presets: {
      summary: 'Manage the presets of a template',
      aliases: ['preset'],
      children: {
        list: { summary: 'List presets', aliases: ['ls'], load: () => import('./templates/presets-list.ts') },
      },
    },
    archive: { summary: 'Archive unused or failed versions', load: () => import('./templates/archive.ts') },
    create: {
      summary: 'Create a template (deprecated, use push)',
      load: () => import('./templates/create.ts'),
    },
  },
};

const provisioner: Node = {
  summary: 'Run provisioner daemons and inspect their jobs',
  aliases: ['provisioners'],
  children: {
    start: { summary: 'Run a provisioner daemon', load: () => import('./daemons/provisioner/start.ts') },
    list: { summary: 'List provisioner daemons', aliases: ['ls'], load: () => import('./provisioner/list.ts') },
    explain: {
      summary: 'Show which daemons can build a template, and why others cannot',
      load: () => import('./provisioner/explain.ts'),
    },
    cache: {
      summary: 'Manage the cache of provisioner daemons on this machine',
      children: {
        prune: {
          summary: 'Remove prepared template versions, providers and modules',
          load: () => import('./daemons/provisioner/cache-prune.ts'),
        },
      },
    },
    keys: {
      summary: 'Manage provisioner keys',
      aliases: ['key'],
      children: {
        create: { summary: 'Create a provisioner key', load: () => import('./provisioner/keys-create.ts') },
        delete: {
          summary: 'Delete a provisioner key',
          aliases: ['rm'],
          load: () => import('./provisioner/keys-delete.ts'),
        },
        list: { summary: 'List provisioner keys', aliases: ['ls'], load: () => import('./provisioner/keys-list.ts') },
      },
    },
    jobs: {
      summary: 'Manage provisioner jobs',
      aliases: ['job'],
      children: {
        cancel: { summary: 'Cancel a provisioner job', load: () => import('./provisioner/jobs-cancel.ts') },
        list: { summary: 'List provisioner jobs', aliases: ['ls'], load: () => import('./provisioner/jobs-list.ts') },
      },
    },
    builtin: { hidden: true, load: () => import('./daemons/provisioner/builtin.ts') },
  },
};

const operator: Node = {
  summary: 'Run the Kubernetes operator',
  children: {
    start: {
      summary: 'Run the servers and provisioner daemons that Kubernetes resources describe',
      load: () => import('./daemons/operator/start.ts'),
    },
  },
};

const users: Node = {
  summary: 'Manage users',
  aliases: ['user'],
  children: {
    create: { summary: 'Create a user', load: () => import('./users/create.ts') },
    list: { summary: 'List users', aliases: ['ls'], load: () => import('./users/list.ts') },
    show: { summary: 'Show a user', load: () => import('./users/show.ts') },
    'edit-roles': { summary: 'Set the roles of a user', load: () => import('./users/edit-roles.ts') },
    'oidc-claims': {
      summary: 'Show what the identity provider reported about you',
      load: () => import('./users/oidc-claims.ts'),
    },
    suspend: { summary: 'Suspend a user', load: () => import('./users/suspend.ts') },
    activate: { summary: 'Activate a suspended user', aliases: ['active'], load: () => import('./users/activate.ts') },
    delete: { summary: 'Delete a user', aliases: ['rm'], load: () => import('./users/delete.ts') },
  },
};

const organizationSettings = () => import('./organizations/settings.ts');

const organizations: Node = {
  summary: 'Manage organizations',
  aliases: ['organization', 'org', 'orgs'],
  children: {
    create: { summary: 'Create an organization', load: () => import('./organizations/create.ts') },
    delete: {
      summary: 'Delete an organization',
      aliases: ['rm'],
      load: () => import('./organizations/delete.ts'),
    },
    list: { summary: 'List organizations', aliases: ['ls'], load: () => import('./organizations/list.ts') },
    show: { summary: 'Show organizations', load: () => import('./organizations/show.ts') },
    members: {
      summary: 'Manage the members of an organization',
      aliases: ['member'],
      children: {
        add: { summary: 'Add a user to an organization', load: () => import('./organizations/members-add.ts') },
        'edit-roles': {
          summary: 'Set the roles of a member',
          aliases: ['edit-role'],
          load: () => import('./organizations/members-edit-roles.ts'),
        },
        list: { summary: 'List members', aliases: ['ls'], load: () => import('./organizations/members-list.ts') },
        remove: {
          summary: 'Remove a member from an organization',
          aliases: ['rm'],
          load: () => import('./organizations/members-remove.ts'),
        },
      },
    },
    settings: {
      summary: 'Manage the settings of an organization',
      aliases: ['setting'],
      children: {
        show: {
          summary: 'Show settings',
          children: {
            'group-sync': {
              summary: 'Show the sync of groups',
              aliases: ['groupsync'],
              load: async () => ({ default: (await organizationSettings()).showGroupSync }),
            },
            'organization-sync': {
              summary: 'Show the sync of organizations',
              aliases: ['organizationsync', 'org-sync', 'orgsync'],
              load: async () => ({ default: (await organizationSettings()).showOrganizationSync }),
            },
            'role-sync': {
              summary: 'Show the sync of roles',
              aliases: ['rolesync'],
              load: async () => ({ default: (await organizationSettings()).showRoleSync }),
            },
            'workspace-sharing': {
              summary: 'Show whose workspaces can be shared',
              load: async () => ({ default: (await organizationSettings()).showWorkspaceSharing }),
            },
          },
        },
        set: {
          summary: 'Change settings',
          children: {
            'group-sync': {
              summary: 'Set the sync of groups',
              aliases: ['groupsync'],
              load: async () => ({ default: (await organizationSettings()).setGroupSync }),
            },
            'organization-sync': {
              summary: 'Set the sync of organizations',
              aliases: ['organizationsync', 'org-sync', 'orgsync'],
              load: async () => ({ default: (await organizationSettings()).setOrganizationSync }),
            },
            'role-sync': {
              summary: 'Set the sync of roles',
              aliases: ['rolesync'],
              load: async () => ({ default: (await organizationSettings()).setRoleSync }),
            },
            'workspace-sharing': {
              summary: 'Set whose workspaces can be shared',
              load: async () => ({ default: (await organizationSettings()).setWorkspaceSharing }),
            },
          },
        },
      },
    },
    roles: {
      summary: 'Manage the roles of an organization',
      aliases: ['role'],
      children: {
        show: { summary: 'Show roles', load: () => import('./organizations/roles-show.ts') },
        create: { summary: 'Create a custom role', load: () => import('./organizations/roles-create.ts') },
        update: { summary: 'Change a custom role', load: () => import('./organizations/roles-update.ts') },
      },
    },
  },
};

const notifications: Node = {
  summary: 'Pause, resume and test notifications',
  aliases: ['notification'],
  children: {
    pause: {
      summary: 'Pause notifications, for example while the mail server is down',
      load: () => import('./notifications/pause.ts'),
    },
    resume: {
      summary: 'Resume notifications and send the waiting ones',
      load: () => import('./notifications/resume.ts'),
    },
    test: { summary: 'Send a test notification to yourself', load: () => import('./notifications/test.ts') },
    custom: { summary: 'Send a notification to yourself', load: () => import('./notifications/custom.ts') },
  },
};

const prebuilds: Node = {
  summary: 'Pause and resume prebuilt workspaces',
  aliases: ['prebuild'],
  children: {
    pause: {
      summary: 'Stop creating and deleting prebuilt workspaces, for example while provisioner daemons are busy',
      load: () => import('./prebuilds/pause.ts'),
    },
    resume: {
      summary: 'Resume creating and deleting prebuilt workspaces',
      load: () => import('./prebuilds/resume.ts'),
    },
  },
};

const oauth2Provider: Node = {
  summary: 'Manage the OAuth2 provider of the server',
  children: {
    dcr: {
      summary: 'Manage dynamic client registration (RFC 7591)',
      children: {
        enable: { summary: 'Let apps register themselves', load: () => import('./oauth2-provider/enable.ts') },
        disable: {
          summary: 'Reject registrations of apps. Apps that have registered stay',
          load: () => import('./oauth2-provider/disable.ts'),
        },
      },
    },
  },
};

const groups: Node = {
  summary: 'Manage groups of users',
  aliases: ['group'],
  children: {
    create: { summary: 'Create a group', load: () => import('./groups/create.ts') },
    list: { summary: 'List groups', aliases: ['ls'], load: () => import('./groups/list.ts') },
    edit: { summary: 'Change a group and its members', load: () => import('./groups/edit.ts') },
    delete: { summary: 'Delete a group', aliases: ['rm'], load: () => import('./groups/delete.ts') },
  },
};

const workspaceProxy: Node = {
  summary: 'Manage workspace proxies, which serve people far from the server',
  aliases: ['wsproxy'],
  examples: [
    { does: 'Create a proxy, and save its token', run: 'coder wsproxy create --name eu --only-token > token' },
  ],
  children: {
    create: { summary: 'Create a workspace proxy', load: () => import('./workspace-proxy/create.ts') },
    ls: { summary: 'List workspace proxies', aliases: ['list'], load: () => import('./workspace-proxy/list.ts') },
    edit: { summary: 'Change a workspace proxy', load: () => import('./workspace-proxy/edit.ts') },
    'regenerate-token': {
      summary: 'Replace the token of a workspace proxy',
      load: () => import('./workspace-proxy/regenerate-token.ts'),
    },
    delete: {
      summary: 'Delete a workspace proxy',
      load: () => import('./workspace-proxy/delete.ts'),
    },
    server: { summary: 'Run a workspace proxy', load: () => import('./daemons/workspace-proxy/server.ts') },
  },
};

const administration: Nodes = {
  server: {
    summary: 'Run the server',
    load: () => import('./daemons/server/server.ts'),
    children: {
      'create-admin-user': {
        summary: 'Create an owner directly in the database',
        load: () => import('./daemons/server/create-admin-user.ts'),
      },
      'fix-oidc-links': {
        summary: 'Reset links of accounts to identities of former OpenID Connect providers',
        load: () => import('./daemons/server/fix-oidc-links.ts'),
      },
      migrate: {
        summary: "Update the database to this version's schema",
        load: () => import('./daemons/server/migrate.ts'),
      },
      'postgres-builtin-serve': {
        summary: 'Run the bundled PostgreSQL without a server',
        load: () => import('./daemons/server/postgres-builtin-serve.ts'),
      },
      'postgres-builtin-url': {
        summary: 'Print the connection URL of the bundled PostgreSQL',
        load: () => import('./daemons/server/postgres-builtin-url.ts'),
      },
      'regenerate-vapid-keypair': {
        summary: 'Replace the key pair for web push in the database',
        load: () => import('./daemons/server/regenerate-vapid-keypair.ts'),
      },
      dbcrypt: {
        summary: 'Manage the encryption of secrets in the database',
        children: {
          rotate: {
            summary: 'Encrypt all secrets with a new key',
            load: () => import('./daemons/server/dbcrypt-rotate.ts'),
          },
          decrypt: {
            summary: 'Store all secrets without encryption',
            load: () => import('./daemons/server/dbcrypt-decrypt.ts'),
          },
          delete: {
            summary: 'Delete all encrypted secrets',
            aliases: ['rm'],
            load: () => import('./daemons/server/dbcrypt-delete.ts'),
          },
        },
      },
    },
  },
  'reset-password': {
    summary: 'Set the password of a user directly in the database',
    load: () => import('./daemons/server/reset-password.ts'),
  },
  users,
  groups,
  organizations,
  notifications,
  prebuilds,
  'oauth2-provider': oauth2Provider,
  'workspace-proxy': workspaceProxy,
  tokens: {
    summary: 'Manage API tokens',
    aliases: ['token'],
    children: {
      create: { summary: 'Create an API token', load: () => import('./tokens/create.ts') },
      list: { summary: 'List API tokens', aliases: ['ls'], load: () => import('./tokens/list.ts') },
      view: { summary: 'Show an API token', load: () => import('./tokens/view.ts') },
      remove: { summary: 'End an API token', aliases: ['delete', 'rm'], load: () => import('./tokens/remove.ts') },
    },
  },
  support: {
    summary: 'Collect information for troubleshooting',
    children: {
      bundle: { summary: 'Collect diagnostics into a support bundle', load: () => import('./support/bundle.ts') },
    },
  },
};

const inside: Nodes = {
  dotfiles: { summary: 'Apply dotfiles from a Git repository', load: () => import('./dotfiles/index.ts') },
  'external-auth': {
    summary: 'Use accounts with external services, such as Git hosts',
    children: {
      'access-token': {
        summary: 'Print an access token for an external service',
        load: () => import('./git/access-token.ts'),
      },
    },
  },
  stat: {
    summary: 'Show the resource usage of this machine',
    load: () => import('./stat/all.ts'),
    children: {
      cpu: { summary: 'Show CPU usage, in cores', load: () => import('./stat/cpu.ts') },
      disk: { summary: 'Show disk usage', load: () => import('./stat/disk.ts') },
      mem: { summary: 'Show memory usage', load: () => import('./stat/mem.ts') },
    },
  },
};

const other: Nodes = {
  completion: { summary: 'Install or print shell completion', load: () => import('./completion.ts') },
  version: { summary: 'Show the version', load: () => import('./version.ts') },
};

const hidden: Nodes = {
  agent: { summary: 'Run the agent of a workspace', hidden: true, load: () => import('./daemons/agent/agent.ts') },
  exp: {
    summary: 'Commands that upstream calls experimental',
    hidden: true,
    children: {
      mcp: {
        summary: 'Give AI tools access to your workspaces with MCP',
        children: {
          server: { summary: 'Serve MCP over standard input and output', load: () => import('./mcp/server.ts') },
          configure: {
            summary: 'Add the server to the settings of an AI tool',
            children: {
              'claude-code': { summary: 'Configure Claude Code', load: () => import('./mcp/configure-claude-code.ts') },
              'claude-desktop': {
                summary: 'Configure Claude Desktop',
                load: () => import('./mcp/configure-claude-desktop.ts'),
              },
              cursor: { summary: 'Configure Cursor', load: () => import('./mcp/configure-cursor.ts') },
            },
          },
        },
      },
      rpty: { summary: "Open the dashboard's terminal", load: () => import('./workspaces/rpty.ts') },
      sync: {
        summary: 'Coordinate startup units, such as scripts, in a workspace',
        children: {
          ping: { summary: 'Check that the workspace agent answers', load: () => import('./sync/ping.ts') },
          start: { summary: 'Wait for the dependencies of a unit and start it', load: () => import('./sync/start.ts') },
          want: { summary: 'Make a unit wait for other units', load: () => import('./sync/want.ts') },
          complete: { summary: 'Mark a unit as completed', load: () => import('./sync/complete.ts') },
          status: { summary: 'Show a unit and its dependencies', load: () => import('./sync/status.ts') },
          list: { summary: 'List all units', load: () => import('./sync/list.ts') },
        },
      },
    },
  },
  gitaskpass: { hidden: true, load: () => import('./git/gitaskpass.ts') },
  gitssh: { hidden: true, load: () => import('./git/gitssh.ts') },
  provisionerd: {
    hidden: true,
    children: {
      start: {
        summary: 'Run a provisioner daemon (deprecated, use provisioner start)',
        load: () => import('./daemons/provisioner/provisionerd-start.ts'),
      },
    },
  },
  vscodessh: { hidden: true, load: () => import('./open/vscodessh.ts') },
};

/** Every command by its upstream name, in the order of the main help. */
export const root: Node = {
  summary: 'Self-hosted development environments',
  examples: [
    { does: 'Log in to a server', run: 'coder login https://coder.example.com' },
    { does: 'Create a workspace and open a shell in it', run: 'coder create dev --template docker && coder ssh dev' },
  ],
  children: {
    ...grouped('Account', account),
    ...grouped('Workspaces', workspaces),
    ...grouped('Connect', connect),
    ...grouped('Templates', { templates }),
    ...grouped('Provisioners', { provisioner, operator }),
    ...grouped('Administration', administration),
    ...grouped('Inside a workspace', inside),
    ...grouped('Other', other),
    ...hidden,
  },
};
