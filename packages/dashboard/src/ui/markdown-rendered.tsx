import ReactMarkdown from 'react-markdown';
import remarkGfm from 'remark-gfm';
import { ExternalLink } from './link.tsx';

export default function MarkdownRendered({ text, inline }: { text: string; inline: boolean }) {
  return (
    <div className={inline ? 'markdown markdown-inline' : 'markdown'}>
      <ReactMarkdown
        remarkPlugins={[remarkGfm]}
        {...(inline
          ? { disallowedElements: ['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'img', 'table'], unwrapDisallowed: true }
          : {})}
        components={{
          // within a text, color alone does not distinguish a link
          a: ({ href, children }) =>
            href ? (
              <ExternalLink href={href} className="underline">
                {children}
              </ExternalLink>
            ) : (
              children
            ),
        }}
      >
        {text}
      </ReactMarkdown>
    </div>
  );
}
