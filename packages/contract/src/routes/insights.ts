import { Type } from 'typebox';
import {
  BuildTimesResponse,
  GetUserStatusCountsResponse,
  InsightsReportInterval,
  TemplateInsightsResponse,
  UserActivityInsightsResponse,
  UserLatencyInsightsResponse,
} from '../schema/insights.ts';
import { Line, Paragraph } from '../schema/kit.ts';
import { DAUsResponse } from '../schema/templates.ts';
import { route } from './kit.ts';

/** Hours east of UTC. */
const zone = Type.Object({ tz_offset: Type.Optional(Type.Integer({ minimum: -12, maximum: 14 })) });
/** Both times are required. The permission is checked first. */
const period = {
  start_time: Type.Optional(Line),
  end_time: Type.Optional(Line),
  /** Ids, separated by commas. Without any: all templates. */
  template_ids: Type.Optional(Paragraph),
};

export const insightsRoutes = {
  'GET /insights/build-times': route({
    tag: 'Insights',
    auth: 'session',
    query: zone,
    responses: { 200: BuildTimesResponse },
  }),
  'GET /insights/daus': route({
    tag: 'Insights',
    auth: 'session',
    query: zone,
    responses: { 200: DAUsResponse },
  }),
  'GET /insights/templates': route({
    tag: 'Insights',
    auth: 'session',
    query: Type.Object({
      ...period,
      interval: Type.Optional(InsightsReportInterval),
      /** `report`, `interval_reports` or both, separated by a comma. */
      sections: Type.Optional(Line),
    }),
    responses: { 200: TemplateInsightsResponse },
  }),
  'GET /insights/user-activity': route({
    tag: 'Insights',
    auth: 'session',
    query: Type.Object(period),
    responses: { 200: UserActivityInsightsResponse },
  }),
  'GET /insights/user-latency': route({
    tag: 'Insights',
    auth: 'session',
    query: Type.Object(period),
    responses: { 200: UserLatencyInsightsResponse },
  }),
  'GET /insights/user-status-counts': route({
    tag: 'Insights',
    auth: 'session',
    query: zone,
    responses: { 200: GetUserStatusCountsResponse },
  }),
} as const;
