import { IMAGE_ADDRESS } from '@ropewalk/contract';

const MAX_LENGTH = 4_096;

/** The address of an icon or picture from a template, an agent or a Git host. Empty if a request could not set it. */
export function imageAddress(text: string): string {
  return text.length <= MAX_LENGTH && IMAGE_ADDRESS.test(text) ? text : '';
}
