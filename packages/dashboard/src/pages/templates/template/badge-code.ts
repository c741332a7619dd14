import { ownValue } from '@ropewalk/kit/own-value';

const ENTITIES: Record<string, string> = { '&': '&amp;', '"': '&quot;', '<': '&lt;', '>': '&gt;' };

/** The badge that opens `link`, to paste into Markdown or HTML. `origin` serves the picture. */
export function badgeCode(origin: string, link: string): { markdown: string; html: string } {
  const image = `${origin}/open-in-coder.svg`;
  // a closing parenthesis would end the link
  const target = link.replaceAll('(', '%28').replaceAll(')', '%29');
  const href = link.replace(/[&"<>]/g, (character) => ownValue(ENTITIES, character)!);
  return {
    markdown: `[![Open in Coder](${image})](${target})`,
    html: `<a href="${href}"><img src="${image}" alt="Open in Coder" /></a>`,
  };
}
