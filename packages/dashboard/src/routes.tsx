import { type AnyRoute, createRootRoute, createRoute } from '@tanstack/react-router';
import { NotFoundPage } from './layouts/problems.tsx';
import { Root } from './layouts/root.tsx';
import { deploymentRoutes } from './pages/deployment/routes.ts';
import { moreRoutes, openRoutes } from './pages/more/routes.ts';
import { organizationRoutes } from './pages/organizations/routes.ts';
import { recordRoutes } from './pages/records/routes.ts';
import { settingsRoutes } from './pages/settings/routes.ts';
import { signInRoutes } from './pages/sign-in/routes.ts';
import { taskRoutes } from './pages/tasks/routes.ts';
import { templateRoutes } from './pages/templates/routes.ts';
import { terminalRoutes } from './pages/terminal/routes.ts';
import { workspaceRoutes } from './pages/workspaces/routes.ts';
import { paths } from './util/paths.ts';
import { forward, layout } from './util/route.ts';

/** The pages of the dashboard, by area. Each area lists its own in `pages/<area>/routes.ts`. */
const root = createRootRoute({ component: Root });

const shell = layout(
  root,
  { id: 'shell' },
  () => import('./layouts/shell.tsx'),
  (self: AnyRoute) => [
    forward(self, '/', () => paths.workspaces()),
    ...workspaceRoutes(self),
    ...taskRoutes(self),
    ...templateRoutes(self),
    ...organizationRoutes(self),
    ...deploymentRoutes(self),
    ...recordRoutes(self),
    ...settingsRoutes(self),
    ...moreRoutes(self),
    // every other address, with the navigation around it
    createRoute({ getParentRoute: () => self, path: '$', component: NotFoundPage }) as unknown as AnyRoute,
  ],
);

export const routeTree = root.addChildren([...signInRoutes(root), ...openRoutes(root), ...terminalRoutes(root), shell]);
