import { ownValue } from '@ropewalk/kit/own-value';

const SPECIAL = /[\\`*_{}[\]<>()#+\-.!|~&]/g;

/** A value inside Markdown, without marks. */
export const escapeMarkdown = (text: string): string =>
  text.replaceAll(/\s*\r?\n\s*/g, ' ').replaceAll(SPECIAL, (mark) => `\\${mark}`);

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
export const escapeHtml = (text: string): string => text.replaceAll(/[&<>"']/g, (mark) => ownValue(ENTITIES, mark)!);
