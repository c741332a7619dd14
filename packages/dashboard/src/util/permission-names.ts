import { ownValue } from '@ropewalk/kit/own-value';

const ACTIONS: Readonly<Record<string, string>> = {
  application_connect: 'Open apps',
  create_agent: 'Add agents',
  delete_agent: 'Remove agents',
  read_personal: 'Read personal data',
  ssh: 'Open shells',
  update_personal: 'Change personal data',
  view_insights: 'View insights',
};

export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1).replaceAll('_', ' ');

/** An action of a permission as a person reads it. */
export const actionName = (action: string) => ownValue(ACTIONS, action) ?? capital(action);
