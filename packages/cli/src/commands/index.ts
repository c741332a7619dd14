import type { Node } from '../framework/tree.ts';

const templates: Node = {
  summary: 'Manage templates.',
  aliases: ['template'],
  children: {
    archive: { summary: 'Archive unused or failed versions.', load: () => import('./templates/archive.ts') },
    create: { summary: 'Create a template (deprecated: push).', load: () => import('./templates/create.ts') },
    delete: { summary: 'Delete templates.', aliases: ['rm'], load: () => import('./templates/delete.ts') },
    edit: { summary: 'Change the settings of a template.', load: () => import('./templates/edit.ts') },
    init: { summary: 'Start from an example template.', load: () => import('./templates/init.ts') },
    list: { summary: 'List templates.', aliases: ['ls'], load: () => import('./templates/list.ts') },
    presets: {
      summary: 'Manage presets of templates.',
      aliases: ['preset'],
      children: {
        list: { summary: 'List presets.', aliases: ['ls'], load: () => import('./templates/presets-list.ts') },
      },
    },
    pull: { summary: "Download a template's files.", load: () => import('./templates/pull.ts') },
    push: {
      summary: 'Create a template, or a version of it, from a directory.',
      load: () => import('./templates/push.ts'),
    },
    versions: {
      summary: 'Manage versions of templates.',
      aliases: ['version'],
      children: {
        archive: { summary: 'Archive versions.', load: () => import('./templates/versions-archive.ts') },
        list: { summary: 'List versions.', aliases: ['ls'], load: () => import('./templates/versions-list.ts') },
        promote: { summary: 'Make a version the active one.', load: () => import('./templates/versions-promote.ts') },
        unarchive: {
          summary: 'Take versions out of the archive.',
          load: () => import('./templates/versions-unarchive.ts'),
        },
      },
    },
  },
};

const users: Node = {
  summary: 'Manage users.',
  aliases: ['user'],
  children: {
    activate: { summary: 'Let a user in again.', aliases: ['active'], load: () => import('./users/activate.ts') },
    create: { summary: 'Create a user.', load: () => import('./users/create.ts') },
    delete: { summary: 'Delete a user.', aliases: ['rm'], load: () => import('./users/delete.ts') },
    'edit-roles': { summary: "Change a user's roles.", load: () => import('./users/edit-roles.ts') },
    list: { summary: 'List users.', aliases: ['ls'], load: () => import('./users/list.ts') },
    show: { summary: 'Show a user.', load: () => import('./users/show.ts') },
    suspend: { summary: 'Keep a user out.', load: () => import('./users/suspend.ts') },
  },
};

const organizations: Node = {
  summary: 'Manage organizations.',
  aliases: ['organization', 'org', 'orgs'],
  children: {
    create: { summary: 'Create an organization.', load: () => import('./organizations/create.ts') },
    members: {
      summary: 'Manage members.',
      aliases: ['member'],
      children: {
        add: { summary: 'Add a member.', load: () => import('./organizations/members-add.ts') },
        'edit-roles': {
          summary: "Change a member's roles.",
          aliases: ['edit-role'],
          load: () => import('./organizations/members-edit-roles.ts'),
        },
        list: { summary: 'List members.', aliases: ['ls'], load: () => import('./organizations/members-list.ts') },
        remove: {
          summary: 'Remove a member.',
          aliases: ['rm'],
          load: () => import('./organizations/members-remove.ts'),
        },
      },
    },
    roles: {
      summary: 'Manage roles.',
      aliases: ['role'],
      children: { show: { summary: 'Show roles.', load: () => import('./organizations/roles-show.ts') } },
    },
    show: { summary: 'Show organizations.', load: () => import('./organizations/show.ts') },
  },
};

const provisioner: Node = {
  summary: 'Run and inspect provisioner daemons and jobs.',
  aliases: ['provisioners'],
  children: {
    builtin: { hidden: true, load: () => import('./daemons/provisioner-builtin.ts') },
    jobs: {
      summary: 'Manage provisioner jobs.',
      aliases: ['job'],
      children: {
        cancel: { summary: 'Cancel a job.', load: () => import('./provisioner/jobs-cancel.ts') },
        list: { summary: 'List jobs.', aliases: ['ls'], load: () => import('./provisioner/jobs-list.ts') },
      },
    },
    keys: {
      summary: 'Manage provisioner keys.',
      aliases: ['key'],
      children: {
        create: { summary: 'Create a key that lets daemons in.', load: () => import('./provisioner/keys-create.ts') },
        delete: { summary: 'Delete a key.', aliases: ['rm'], load: () => import('./provisioner/keys-delete.ts') },
        list: { summary: 'List keys.', aliases: ['ls'], load: () => import('./provisioner/keys-list.ts') },
      },
    },
    explain: {
      summary: "Say which daemons could run a template's builds, and why others can not.",
      load: () => import('./provisioner/explain.ts'),
    },
    launcher: { hidden: true, load: () => import('./daemons/provisioner-launcher.ts') },
    list: { summary: 'List provisioner daemons.', aliases: ['ls'], load: () => import('./provisioner/list.ts') },
    runner: { hidden: true, load: () => import('./daemons/provisioner-runner.ts') },
    start: { summary: 'Run a provisioner daemon.', load: () => import('./daemons/provisioner-start.ts') },
  },
};

const schedule: Node = {
  summary: 'Let workspaces start and stop by themselves.',
  children: {
    extend: { summary: 'Move the next stop.', aliases: ['override-stop'], load: () => import('./schedule/extend.ts') },
    show: { summary: 'Show schedules.', load: () => import('./schedule/show.ts') },
    start: { summary: 'Set when a workspace starts.', load: () => import('./schedule/start.ts') },
    stop: { summary: 'Set how long after its start a workspace stops.', load: () => import('./schedule/stop.ts') },
  },
};

/** Every command by its published name. Only the one that runs is loaded. */
export const root: Node = {
  summary: 'Self-hosted development environments.',
  children: {
    agent: { summary: 'Run the agent of a workspace.', hidden: true, load: () => import('./daemons/agent.ts') },
    autoupdate: {
      summary: 'Set whether a start updates a workspace.',
      load: () => import('./workspaces/autoupdate.ts'),
    },
    completion: { summary: 'Print or install completion for a shell.', load: () => import('./completion.ts') },
    'config-ssh': {
      summary: 'Let ssh reach workspaces by name.',
      load: () => import('./config-ssh/index.ts'),
    },
    create: { summary: 'Create a workspace.', load: () => import('./workspaces/create.ts') },
    delete: { summary: 'Delete a workspace.', aliases: ['rm'], load: () => import('./workspaces/delete.ts') },
    dotfiles: { summary: 'Apply your dotfiles from a Git repository.', load: () => import('./dotfiles/index.ts') },
    'external-auth': {
      summary: 'Use your accounts elsewhere from a workspace.',
      children: {
        'access-token': {
          summary: 'Print the token of an account elsewhere, in a workspace.',
          load: () => import('./git/access-token.ts'),
        },
      },
    },
    favorite: {
      summary: 'Put a workspace first in lists.',
      aliases: ['fav', 'favourite'],
      load: () => import('./workspaces/favorite.ts'),
    },
    gitaskpass: { hidden: true, load: () => import('./git/gitaskpass.ts') },
    gitssh: { hidden: true, load: () => import('./git/gitssh.ts') },
    list: { summary: 'List workspaces.', aliases: ['ls'], load: () => import('./workspaces/list.ts') },
    login: { summary: 'Log in to a server.', load: () => import('./session/login.ts') },
    logout: { summary: 'Log out.', load: () => import('./session/logout.ts') },
    netcheck: { summary: 'Check the way to the server.', load: () => import('./network/netcheck.ts') },
    open: {
      summary: 'Open a workspace in other programs.',
      children: {
        app: { summary: 'Open an app of a workspace in the browser.', load: () => import('./open/app.ts') },
        vscode: { summary: 'Open a workspace in Visual Studio Code.', load: () => import('./open/vscode.ts') },
      },
    },
    organizations,
    ping: { summary: 'Time the way to a workspace and back.', load: () => import('./network/ping.ts') },
    'port-forward': {
      summary: 'Bring ports of a workspace to this machine.',
      aliases: ['tunnel'],
      load: () => import('./port-forward/index.ts'),
    },
    provisioner,
    provisionerd: {
      hidden: true,
      children: {
        start: {
          summary: 'Run a provisioner daemon (deprecated: provisioner start).',
          load: () => import('./daemons/provisionerd-start.ts'),
        },
      },
    },
    publickey: {
      summary: 'Print the public key that Git uses in workspaces.',
      aliases: ['pubkey'],
      load: () => import('./users/publickey.ts'),
    },
    rename: { summary: 'Rename a workspace.', load: () => import('./workspaces/rename.ts') },
    restart: { summary: 'Stop and start a workspace.', load: () => import('./workspaces/restart.ts') },
    schedule,
    server: { summary: 'Run the server.', load: () => import('./daemons/server.ts') },
    show: { summary: 'Show resources and agents of a workspace.', load: () => import('./workspaces/show.ts') },
    speedtest: {
      summary: 'Measure how much goes to a workspace and back.',
      load: () => import('./network/speedtest.ts'),
    },
    ssh: { summary: 'Get a shell in a workspace, or run a command there.', load: () => import('./workspaces/ssh.ts') },
    start: { summary: 'Start a workspace.', load: () => import('./workspaces/start.ts') },
    stat: {
      summary: 'Show what is used of this machine.',
      load: () => import('./stat/all.ts'),
      children: {
        cpu: { summary: 'Show CPU use, in cores.', load: () => import('./stat/cpu.ts') },
        disk: { summary: 'Show disk use.', load: () => import('./stat/disk.ts') },
        mem: { summary: 'Show memory use.', load: () => import('./stat/mem.ts') },
      },
    },
    state: {
      summary: 'Get and replace the Terraform state of a workspace.',
      children: {
        pull: { summary: 'Print the state, or write it to a file.', load: () => import('./state/pull.ts') },
        push: { summary: 'Replace the state, by a build.', load: () => import('./state/push.ts') },
      },
    },
    stop: { summary: 'Stop a workspace.', load: () => import('./workspaces/stop.ts') },
    support: {
      summary: 'Get help.',
      children: {
        bundle: { summary: 'Collect what helps to understand trouble.', load: () => import('./support/bundle.ts') },
      },
    },
    templates,
    tokens: {
      summary: 'Manage your tokens.',
      aliases: ['token'],
      children: {
        create: { summary: 'Create a token.', load: () => import('./tokens/create.ts') },
        list: { summary: 'List tokens.', aliases: ['ls'], load: () => import('./tokens/list.ts') },
        remove: { summary: 'Remove a token.', aliases: ['delete', 'rm'], load: () => import('./tokens/remove.ts') },
      },
    },
    unfavorite: {
      summary: 'Undo favorite.',
      aliases: ['unfav', 'unfavourite'],
      load: () => import('./workspaces/unfavorite.ts'),
    },
    update: { summary: 'Build a workspace with the active version.', load: () => import('./workspaces/update.ts') },
    users,
    version: { summary: 'Print the version.', load: () => import('./version.ts') },
    vscodessh: { hidden: true, load: () => import('./vscodessh.ts') },
    whoami: { summary: 'Print who is logged in, and where.', load: () => import('./session/whoami.ts') },
  },
};
