/**
 * The notifications that people can get, with upstream's ids and groups. Texts are Markdown with placeholders: a label of
 * the event, or a field of the person who receives it.
 */

export interface Template {
  id: string;
  name: string;
  group: 'Workspace Events' | 'User Events' | 'Template Events' | 'Notification Events' | 'Custom Events';
  /** People write its messages. Default: the server does. */
  kind?: 'custom';
  title: string;
  body: string;
  actions: readonly { label: string; url: string }[];
  /** The name of the picture in the inbox, under upstream's names. */
  icon: string;
  /** People get it unless they switch it off. Default: true. */
  enabledByDefault?: false;
  /** People cannot switch it off: they asked for it, or it warns them. */
  required?: true;
  /** It can be sent by mail only: it contains a secret. */
  mailOnly?: true;
  /** It is sent by mail too, whatever method is chosen: it is for the holder of an address. */
  alsoByMail?: true;
}

const workspaceAction = { label: 'View workspace', url: '{{base_url}}/@{{.Labels.owner}}/{{.Labels.workspace}}' };
const workspacesAction = { label: 'View workspaces', url: '{{base_url}}/workspaces' };
const usersAction = { label: 'View accounts', url: '{{base_url}}/deployment/users?filter={{.Labels.username}}' };
const templatesAction = { label: 'View templates', url: '{{base_url}}/templates' };
const buildAction = {
  label: 'View build',
  url: '{{base_url}}/@{{.Labels.owner}}/{{.Labels.workspace}}/builds/{{.Labels.build}}',
};

const WORKSPACE = { group: 'Workspace Events', icon: 'DEFAULT_ICON_WORKSPACE' } as const;
const USER = { group: 'User Events', icon: 'DEFAULT_ICON_ACCOUNT' } as const;
const TEMPLATE = { group: 'Template Events', icon: 'DEFAULT_ICON_TEMPLATE' } as const;

export const TEMPLATES = {
  workspaceCreated: {
    ...WORKSPACE,
    id: '281fdf73-c6d6-4cbb-8ff5-888baf8a2fff',
    name: 'Workspace Created',
    title: "Workspace '{{.Labels.workspace}}' was created",
    body: 'The workspace **{{.Labels.workspace}}** was created from the template **{{.Labels.template}}**, version **{{.Labels.version}}**.',
    actions: [workspaceAction],
    enabledByDefault: false,
  },
  workspaceUpdated: {
    ...WORKSPACE,
    id: 'd089fe7b-d5c5-4c0c-aaf5-689859f7d392',
    name: 'Workspace Manually Updated',
    title: "Workspace '{{.Labels.workspace}}' was updated",
    body: '**{{.Labels.initiator}}** updated the workspace **{{.Labels.workspace}}** to version **{{.Labels.version}}** of the template **{{.Labels.template}}**.',
    actions: [workspaceAction],
    enabledByDefault: false,
  },
  workspaceDeleted: {
    ...WORKSPACE,
    id: 'f517da0b-cdc9-410f-ab89-a86107c420ed',
    name: 'Workspace Deleted',
    title: "Workspace '{{.Labels.workspace}}' was deleted",
    body: '**{{.Labels.initiator}}** deleted your workspace **{{.Labels.workspace}}**. Reason: {{.Labels.reason}}.',
    actions: [workspacesAction],
  },
  automaticBuildFailed: {
    ...WORKSPACE,
    id: '381df2a9-c0c0-4749-420f-80a9280c66f9',
    name: 'Workspace Autobuild Failed',
    title: "Automatic build of workspace '{{.Labels.workspace}}' failed",
    body: 'An automatic build of your workspace **{{.Labels.workspace}}** failed. Reason of the build: {{.Labels.reason}}.',
    actions: [buildAction],
  },
  workspaceDormant: {
    ...WORKSPACE,
    id: '0ea69165-ec14-4314-91f1-69566ac3c5a0',
    name: 'Workspace Marked as Dormant',
    title: "Workspace '{{.Labels.workspace}}' is dormant",
    body: 'Your workspace **{{.Labels.workspace}}** is dormant: {{.Labels.reason}} Activate it to use it again.',
    actions: [workspaceAction],
  },
  workspaceAutoUpdated: {
    ...WORKSPACE,
    id: 'c34a0c09-0704-4cac-bd1c-0c0146811c2b',
    name: 'Workspace Automatically Updated',
    title: "Workspace '{{.Labels.workspace}}' was updated automatically",
    body: 'Your workspace **{{.Labels.workspace}}** was updated to version **{{.Labels.version}}** of its template. {{.Labels.message}}',
    actions: [workspaceAction],
  },
  workspaceMarkedForDeletion: {
    ...WORKSPACE,
    id: '51ce2fdf-c9ca-4be1-8d70-628674f9bc42',
    name: 'Workspace Marked for Deletion',
    title: "Workspace '{{.Labels.workspace}}' will be deleted",
    body: 'Your workspace **{{.Labels.workspace}}** is dormant and will be deleted in {{.Labels.time}}. Activate it to keep it.',
    actions: [workspaceAction],
  },
  workspaceStopsSoon: {
    ...WORKSPACE,
    id: '6f6cb984-c167-4fa5-bb87-1058dd642779',
    name: 'Workspace Autostop Reminder',
    title: "Workspace '{{.Labels.workspace}}' stops soon",
    body: 'Your workspace **{{.Labels.workspace}}** stops in {{.Labels.time}}. Extend its deadline to keep it running.',
    actions: [workspaceAction],
  },
  manualBuildFailed: {
    ...WORKSPACE,
    id: '2faeee0f-26cb-4e96-821c-85ccb9f71513',
    name: 'Workspace Manual Build Failed',
    title: "A build of workspace '{{.Labels.workspace}}' failed",
    body: 'The **{{.Labels.transition}}** of the workspace **{{.Labels.workspace}}** of **{{.Labels.owner}}** failed. It uses version **{{.Labels.version}}** of the template **{{.Labels.template}}**. **{{.Labels.initiator}}** started the build.',
    actions: [buildAction],
  },
  outOfMemory: {
    ...WORKSPACE,
    id: 'a9d027b4-ac49-4fb1-9f6d-45af15f64e7a',
    name: 'Workspace Out Of Memory',
    title: "Workspace '{{.Labels.workspace}}' is low on memory",
    body: 'The memory of your workspace **{{.Labels.workspace}}** has reached the threshold of **{{.Labels.threshold}}**.',
    actions: [workspaceAction],
  },
  outOfDisk: {
    ...WORKSPACE,
    id: 'f047f6a3-5713-40f7-85aa-0394cce9fa3a',
    name: 'Workspace Out Of Disk',
    title: "Workspace '{{.Labels.workspace}}' is low on disk space",
    body: 'The volume **{{.Labels.volume}}** of your workspace **{{.Labels.workspace}}** has reached the threshold of **{{.Labels.threshold}}**.',
    actions: [workspaceAction],
  },
  userCreated: {
    ...USER,
    id: '4e19c0ac-94e1-4532-9515-d1801aa283b2',
    name: 'User account created',
    title: "User account '{{.Labels.username}}' was created",
    body: '**{{.Labels.initiator}}** created the account **{{.Labels.username}}**.',
    actions: [usersAction],
  },
  userDeleted: {
    ...USER,
    id: 'f44d9314-ad03-4bc8-95d0-5cad491da6b6',
    name: 'User account deleted',
    title: "User account '{{.Labels.username}}' was deleted",
    body: '**{{.Labels.initiator}}** deleted the account **{{.Labels.username}}**.',
    actions: [{ label: 'View accounts', url: '{{base_url}}/deployment/users' }],
  },
  userSuspended: {
    ...USER,
    id: 'b02ddd82-4733-4d02-a2d7-c36f3598997d',
    name: 'User account suspended',
    title: "User account '{{.Labels.username}}' was suspended",
    body: '**{{.Labels.initiator}}** suspended the account **{{.Labels.username}}**.',
    actions: [usersAction],
  },
  userActivated: {
    ...USER,
    id: '9f5af851-8408-4e73-a7a1-c6502ba46689',
    name: 'User account activated',
    title: "User account '{{.Labels.username}}' was activated",
    body: '**{{.Labels.initiator}}** activated the account **{{.Labels.username}}**.',
    actions: [usersAction],
  },
  yourAccountSuspended: {
    ...USER,
    id: '6a2f0609-9b69-4d36-a989-9f5925b6cbff',
    name: 'Your account has been suspended',
    title: 'Your account was suspended',
    body: '**{{.Labels.initiator}}** suspended your account **{{.Labels.username}}**. Ask an administrator to activate it.',
    actions: [],
  },
  yourAccountActivated: {
    ...USER,
    id: '1a6a6bea-ee0a-43e2-9e7c-eabdb53730e4',
    name: 'Your account has been activated',
    title: 'Your account was activated',
    body: '**{{.Labels.initiator}}** activated your account **{{.Labels.username}}**.',
    actions: [{ label: 'Open', url: '{{base_url}}' }],
  },
  emailChanged: {
    ...USER,
    // upstream has no such notification
    id: 'c8a1e7d5-6b0f-4d39-9a52-7f3e51b8d0a4',
    name: 'Email address changed',
    title: 'The email address of your account was changed',
    body: '**{{.Labels.initiator}}** changed the email address of your account **{{.Labels.username}}** from **{{.Labels.before}}** to **{{.Labels.after}}**.\n\nThis message went to the old address. If you did not expect the change, ask an administrator.',
    actions: [],
    required: true,
    alsoByMail: true,
  },
  oneTimePasscode: {
    ...USER,
    id: '62f86a30-2330-4b61-a26d-311ff3b608cf',
    name: 'One-Time Passcode',
    title: 'Set a new password',
    body: 'Use the link below to set a new password. It is valid for **{{.Labels.minutes}} minutes**.\n\nIf you did not ask for it, ignore this message: your password stays as it is.',
    actions: [
      {
        label: 'Set a new password',
        url: '{{base_url}}/reset-password/change?otp={{.Labels.one_time_passcode}}&email={{.UserEmail}}',
      },
    ],
    required: true,
    mailOnly: true,
  },
  templateDeleted: {
    ...TEMPLATE,
    id: '29a09665-2a4c-403f-9648-54301670e7be',
    name: 'Template Deleted',
    title: "Template '{{.Labels.template}}' was deleted",
    body: '**{{.Labels.initiator}}** deleted the template **{{.Labels.template}}** of the organization **{{.Labels.organization}}**.',
    actions: [templatesAction],
  },
  templateDeprecated: {
    ...TEMPLATE,
    id: 'f40fae84-55a2-42cd-99fa-b41c1ca64894',
    name: 'Template Deprecated',
    title: "Template '{{.Labels.template}}' is deprecated",
    body: 'You have a workspace of the template **{{.Labels.template}}**, which is deprecated now:\n\n{{.Labels.message}}',
    actions: [
      { label: 'View your workspaces', url: '{{base_url}}/workspaces?filter=owner:me+template:{{.Labels.template}}' },
    ],
  },
  buildsFailedReport: {
    ...TEMPLATE,
    id: '34a20db2-e9cc-4a93-b0e4-8569699d7a00',
    name: 'Report: Workspace Builds Failed',
    title: 'Failed workspace builds of the last week',
    body: 'Builds of your templates failed **{{.Labels.count}}** times in the last week. Most of them: {{.Labels.templates}}.',
    actions: [templatesAction],
  },
  resourceReplaced: {
    ...TEMPLATE,
    id: '89d9745a-816e-4695-a17f-3d0a229e2b8d',
    name: 'Prebuilt Workspace Resource Replaced',
    title: 'A claimed prebuilt workspace replaced its resources',
    body: 'The claim of **{{.Labels.workspace}}** replaced **{{.Labels.resources}}**. Change the template **{{.Labels.template}}** so that a claim keeps them.',
    actions: [templatesAction],
  },
  prebuildLimitReached: {
    ...TEMPLATE,
    id: '414d9331-c1fc-4761-b40c-d1f4702279eb',
    name: 'Prebuild Failure Limit Reached',
    title: "Prebuilt workspaces of '{{.Labels.template}}' are not built any more",
    body: 'Too many builds of the preset **{{.Labels.preset}}** of the template **{{.Labels.template}}**, version **{{.Labels.version}}**, failed. Publish a version that works.',
    actions: [templatesAction],
  },
  test: {
    group: 'Notification Events',
    icon: 'DEFAULT_ICON_OTHER',
    id: 'c425f63e-716a-4bf4-ae24-78348f706c3f',
    name: 'Test Notification',
    title: 'A test notification',
    body: 'Notifications work. **{{.UserUsername}}** requested this test.',
    actions: [{ label: 'View notification settings', url: '{{base_url}}/deployment/notifications' }],
    required: true,
  },
  custom: {
    group: 'Custom Events',
    kind: 'custom',
    icon: 'DEFAULT_ICON_OTHER',
    id: '39b1e189-c857-4b0c-877a-511144c18516',
    name: 'Custom Notification',
    title: '{{.Labels.custom_title}}',
    body: '{{.Labels.custom_message}}',
    actions: [],
  },
} as const satisfies Record<string, Template>;

export type TemplateName = keyof typeof TEMPLATES;

export const templateById = (id: string): Template | undefined =>
  (Object.values(TEMPLATES) as Template[]).find((template) => template.id === id);
