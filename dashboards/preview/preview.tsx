// Draws a dashboard with Grafana's own panel components, from what its queries gave. It is no Grafana: variables, links, and
// all that is around the panels are left out.
import { createRoot } from 'react-dom/client';
import type { DataFrame, DisplayValue, FieldConfig, TimeRange } from '@grafana/data';
// By require, so that their CommonJS forms are bundled: the others take the default exports of older packages wrongly.
import data = require('@grafana/data');
import ui = require('@grafana/ui');

const { applyFieldOverrides, createTheme, dateTime, FieldColorModeId, FieldConfigOptionsRegistry, FieldType, getFieldDisplayName } = data;
const { MutableDataFrame, ThemeContext } = data;
const { BarGauge, BigValue, BigValueColorMode, BigValueGraphMode, BigValueTextMode, Table, TimeSeries } = ui;

interface Series {
  name: string;
  tags?: Record<string, string>;
  columns: string[];
  values: Array<Array<number | string | boolean | null>>;
}

interface Panel {
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets: Array<{ refId: string; alias?: string; resultFormat?: string; series: Series[] }>;
  fieldConfig: {
    defaults: FieldConfig;
    overrides: Array<{ matcher: { options: string }; properties: Array<{ id: string; value: unknown }> }>;
  };
  transformations?: Array<{ options: { conversions?: Array<{ targetField: string }> } }>;
  options: { legend?: object; sortBy?: Array<{ displayName: string; desc: boolean }> };
}

interface Board {
  title: string;
  from: number;
  to: number;
  panels: Panel[];
}

const theme = createTheme({ colors: { mode: 'light' } });
const [columnWidth, rowHeight, header] = [64, 36, 28];

// legend is what Grafana's data source for InfluxDB makes of an alias.
function legend(alias: string | undefined, series: Series, column: string): string {
  if (!alias) {
    return series.name;
  }
  return alias.replace(/\$tag_(\w+)/g, (_, tag) => series.tags?.[tag] ?? '').replace(/\$col/g, column);
}

function configOf(panel: Panel, name: string): FieldConfig {
  const config = structuredClone(panel.fieldConfig.defaults);
  delete config.links;
  config.color ??= { mode: FieldColorModeId.PaletteClassic };
  for (const override of panel.fieldConfig.overrides) {
    if (override.matcher.options !== name) {
      continue;
    }
    for (const { id, value } of override.properties) {
      if (id.startsWith('custom.')) {
        config.custom = { ...config.custom, [id.slice('custom.'.length)]: value };
      } else if (id !== 'links') {
        Object.assign(config, { [id]: value });
      }
    }
  }
  return config;
}

function typeOf(values: unknown[]) {
  const first = values.find((value) => value !== null);
  return typeof first === 'number' ? FieldType.number : typeof first === 'boolean' ? FieldType.boolean : FieldType.string;
}

// framesOf gives a frame for each line, or one for a table.
function framesOf(panel: Panel): DataFrame[] {
  const frames: DataFrame[] = [];
  const table = new Map<string, unknown[]>();
  let rows = 0;
  for (const target of panel.targets) {
    for (const series of target.series) {
      const column = (i: number) => series.values.map((row) => row[i]);
      if (panel.type === 'table') {
        const cells = new Map<string, unknown[]>(Object.entries(series.tags ?? {}).map(([tag, value]) => [tag, series.values.map(() => value)]));
        series.columns.forEach((name, i) => name !== 'time' && cells.set(name, column(i)));
        for (const [name, values] of cells) {
          table.set(name, [...(table.get(name) ?? Array(rows).fill(null)), ...values]);
        }
        rows += series.values.length;
        continue;
      }
      series.columns.slice(1).forEach((name, i) => {
        const shown = legend(target.alias, series, name);
        const values = column(i + 1);
        if (values.every((value) => value === null)) {
          return;
        }
        frames.push(
          new MutableDataFrame({
            refId: target.refId,
            fields: [
              { name: 'Time', type: FieldType.time, values: column(0), config: {} },
              { name: 'Value', type: FieldType.number, values, config: { ...configOf(panel, shown), displayNameFromDS: shown } },
            ],
          })
        );
      });
    }
  }
  if (panel.type === 'table') {
    const numbers = panel.transformations?.flatMap((t) => t.options.conversions ?? []).map((c) => c.targetField) ?? [];
    const fields = [...table].map(([name, values]) => {
      const all = [...(numbers.includes(name) ? values.map(Number) : values), ...Array(rows - values.length).fill(null)];
      return { name, type: typeOf(all), values: all, config: configOf(panel, name) };
    });
    frames.push(new MutableDataFrame({ fields }));
  }
  return applyFieldOverrides({
    data: frames, theme, fieldConfig: { defaults: {}, overrides: [] }, replaceVariables: (text) => text, timeZone: 'utc',
    fieldConfigRegistry: new FieldConfigOptionsRegistry(),
  });
}

function latest(frame: DataFrame): { name: string; value: DisplayValue } | undefined {
  const field = frame.fields[1];
  const last = [...field.values].reverse().find((value) => value !== null);
  return last === undefined ? undefined : { name: getFieldDisplayName(field, frame), value: field.display!(last) };
}

function Body({ panel, range, width, height }: { panel: Panel; range: TimeRange; width: number; height: number }) {
  const frames = framesOf(panel);
  if (frames.length === 0) {
    return <div style={{ padding: 8 }}>no data</div>;
  }
  if (panel.type === 'timeseries') {
    return <TimeSeries frames={frames} timeRange={range} timeZone="utc" width={width} height={height} legend={panel.options.legend as never} />;
  }
  if (panel.type === 'table') {
    return <Table data={frames[0]} width={width} height={height} initialSortBy={panel.options.sortBy} columnMinWidth={70} />;
  }
  const values = frames.map(latest).filter((one) => one !== undefined);
  if (panel.type === 'stat') {
    return (
      <BigValue width={width} height={height} theme={theme} value={values[0].value} colorMode={BigValueColorMode.Value}
        graphMode={BigValueGraphMode.None} textMode={BigValueTextMode.Value} />
    );
  }
  const each = Math.max(18, Math.min(40, height / values.length));
  return (
    <>
      {values.map(({ name, value }, i) => (
        <BarGauge key={i} width={width} height={each} theme={theme} field={frames[i].fields[1].config} value={{ ...value, title: name }}
          display={frames[i].fields[1].display} orientation={'horizontal' as never} displayMode={'gradient' as never} />
      ))}
    </>
  );
}

function Dashboard({ board }: { board: Board }) {
  const [from, to] = [dateTime(board.from), dateTime(board.to)];
  const range = { from, to, raw: { from, to } };
  const rows = Math.max(...board.panels.map((p) => p.gridPos.y + p.gridPos.h));
  return (
    <div style={{ position: 'relative', width: 24 * columnWidth, height: rows * rowHeight + 48, fontFamily: theme.typography.fontFamily }}>
      <h2 style={{ margin: 0, padding: 8, fontSize: 18 }}>{board.title} — a preview, not a screenshot of Grafana</h2>
      {board.panels.map((panel, i) => {
        const { x, y, w, h } = panel.gridPos;
        const box = { position: 'absolute' as const, left: x * columnWidth, top: 48 + y * rowHeight, width: w * columnWidth - 8, height: h * rowHeight - 8 };
        if (panel.type === 'row') {
          return <b key={i} style={box}>{panel.title}</b>;
        }
        return (
          <div key={i} style={{ ...box, border: '1px solid #ccd', overflow: 'hidden' }}>
            <div style={{ height: header, padding: '4px 8px', fontSize: 13, fontWeight: 500 }}>{panel.title}</div>
            <div style={{ padding: '0 4px' }}>
              <Body panel={panel} range={range} width={box.width - 10} height={box.height - header - 6} />
            </div>
          </div>
        );
      })}
    </div>
  );
}

declare const board: Board;
createRoot(document.getElementById('root')!).render(
  <ThemeContext.Provider value={theme}>
    <Dashboard board={board} />
  </ThemeContext.Provider>
);
