// The Markdown of notifications: CommonMark without images and HTML, and links only to the web.
// Import this module dynamically: it loads a parser, which a server needs with its first notification.

import MarkdownIt from 'markdown-it';
import { textOf } from '../markdown/plain-text.ts';

const messages = new MarkdownIt('commonmark', { html: false }).disable(['image', 'code']);
messages.validateLink = (address) => /^https?:\/\//i.test(address);
// lines end only between the outermost blocks
messages.renderer.renderToken = (tokens, at) => {
  const { hidden, nesting, tag, block, level } = tokens[at]!;
  if (hidden) return '';
  if (nesting === -1) return `</${tag}>${block && level === 0 ? '\n' : ''}`;
  return `<${tag}${messages.renderer.renderAttrs(tokens[at]!)}>`;
};

export const markdownToHtml = (markdown: string): string => messages.render(markdown).trimEnd();

export const markdownToText = (markdown: string): string => textOf(messages.parse(markdown, {}));
