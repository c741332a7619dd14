import type { TemplateExample } from '@ropewalk/contract';
import { Avatar } from '../../../ui/avatar.tsx';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { paths } from '../../../util/paths.ts';
import { useStarter } from './use-starter.ts';

/** The frame of a card. */
export const CARD = 'relative rounded-lg border bg-surface transition-colors';

/** What to start with on a server without templates. */
export function Suggestion({ example }: { example: TemplateExample }) {
  return (
    <section
      aria-label="Suggestion"
      className={cx(CARD, 'flex flex-wrap items-center gap-x-5 gap-y-4 border-accent p-5')}
    >
      <Avatar name={example.name} src={example.icon} size={44} square />
      <div className="min-w-52 flex-1">
        <h2 className="font-semibold text-lg">
          <Link to={paths.starterTemplate(example.id)} plain className="hover:underline">
            {example.name}
          </Link>
        </h2>
        <p className="max-w-3xl text-muted">{example.description}</p>
      </div>
      <UseButton example={example} primary />
    </section>
  );
}

/** Imports a starter template. */
export function UseButton({ example, primary }: { example: TemplateExample; primary?: boolean }) {
  const use = useStarter();
  return (
    <Button
      look={primary ? 'primary' : 'default'}
      size={primary ? 'md' : 'sm'}
      className={primary ? '' : 'relative z-1'}
      onClick={() => use(example.id)}
    >
      Use<span className="sr-only"> {example.name}</span>
    </Button>
  );
}
