import { escapeMarkdown } from './escape.ts';
import type { Template } from './templates.ts';

export interface Recipient {
  id: string;
  username: string;
  name: string;
  email: string;
}

export interface Rendered {
  title: string;
  /** Markdown. */
  body: string;
  actions: { label: string; url: string }[];
}

const PLACEHOLDER = /\{\{(base_url|\.User(?:Username|Name|Email)|\.Labels\.(\w+))\}\}/g;

/** The texts of a template for a person. Values are shown as they are: they cannot add marks or links. */
export function render(
  template: Pick<Template, 'title' | 'body' | 'actions' | 'kind'>,
  { labels, user, baseUrl }: { labels: Readonly<Record<string, string>>; user: Recipient; baseUrl: string },
): Rendered {
  const fill = (text: string, write: (value: string) => string) =>
    text.replaceAll(PLACEHOLDER, (_all, what: string, label: string | undefined) => {
      if (what === 'base_url') return baseUrl;
      if (what === '.UserUsername') return write(user.username);
      if (what === '.UserName') return write(user.name || user.username);
      if (what === '.UserEmail') return write(user.email);
      return write(labels[label!] ?? '');
    });
  return {
    title: fill(template.title, (value) => value.replaceAll(/\s+/g, ' ')),
    // a person's message is that person's Markdown, and nobody else gets it
    body: fill(template.body, template.kind === 'custom' ? (value) => value : escapeMarkdown),
    actions: template.actions.map(({ label, url }) => ({ label, url: fill(url, encodeURIComponent) })),
  };
}
