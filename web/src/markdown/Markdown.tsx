import { memo, useState, type ReactNode } from "react";
import { ShowAll } from "../ui/ShowAll";
import { parseBlocks, type Block, type Item } from "./blocks";
import { CodeBlock } from "./CodeBlock";
import { parseInline, type Inline } from "./inline";

const SHOWN_MAX = 20_000;
const NO_MARKS: readonly string[] = [];

/** A text of an agent, formatted. Every part is a text node; links are shown and cannot be followed. */
export const Markdown = memo(function Markdown({ text, marks = NO_MARKS }: { text: string; marks?: readonly string[] | undefined }) {
  const [isWhole, setWhole] = useState(false);
  const isCut = text.length > SHOWN_MAX && !isWhole;
  const blocks = parseBlocks(isCut ? text.slice(0, SHOWN_MAX) : text);
  return (
    <>
      <bdi dir="auto" className="formatted">
        {blocks.map((block, n) => (
          <BlockView key={n} block={block} marks={marks} />
        ))}
      </bdi>
      {isCut && <ShowAll text={text} show={() => setWhole(true)} />}
    </>
  );
});

function BlockView({ block, marks }: { block: Block; marks: readonly string[] }): ReactNode {
  switch (block.kind) {
    case "heading":
      return (
        <div className={`heading heading-${block.level}`} role="heading" aria-level={Math.min(6, block.level + 2)}>
          <Text text={block.text} marks={marks} />
        </div>
      );
    case "code":
      return <CodeBlock text={block.text} language={block.language} />;
    case "quote":
      return <blockquote>{blockViews(block.of, marks)}</blockquote>;
    case "list":
      return <ListView block={block} marks={marks} />;
    case "table":
      return <TableView block={block} marks={marks} />;
    case "rule":
      return <hr />;
    case "paragraph":
      return (
        <p>
          <Text text={block.text} marks={marks} />
        </p>
      );
  }
}

function blockViews(blocks: readonly Block[], marks: readonly string[]): ReactNode {
  return blocks.map((block, n) => <BlockView key={n} block={block} marks={marks} />);
}

function ListView({ block, marks }: { block: Extract<Block, { kind: "list" }>; marks: readonly string[] }) {
  const items = block.items.map((item, n) => <ItemView key={n} item={item} marks={marks} />);
  return block.start === null ? <ul>{items}</ul> : <ol start={block.start}>{items}</ol>;
}

function ItemView({ item, marks }: { item: Item; marks: readonly string[] }) {
  return (
    <li className={item.isDone === null ? undefined : "is-task"}>
      {item.isDone !== null && <span role="img" aria-label={item.isDone ? "done" : "not done"}>{item.isDone ? "☑" : "☐"}</span>}
      {blockViews(item.of, marks)}
    </li>
  );
}

function TableView({ block, marks }: { block: Extract<Block, { kind: "table" }>; marks: readonly string[] }) {
  return (
    <div className="table-scroll" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {block.head.map((cell, n) => (
              <th key={n} scope="col">
                <Text text={cell} marks={marks} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {block.rows.map((row, n) => (
            <tr key={n}>
              {row.map((cell, m) => (
                <td key={m}>
                  <Text text={cell} marks={marks} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Text({ text, marks }: { text: string; marks: readonly string[] }) {
  return <Inlines of={parseInline(text, marks)} />;
}

function Inlines({ of }: { of: readonly Inline[] }): ReactNode {
  return of.map((node, n) => <InlineView key={n} node={node} />);
}

function InlineView({ node }: { node: Inline }): ReactNode {
  switch (node.kind) {
    case "text":
      return node.text;
    case "code":
      return <code>{node.text}</code>;
    case "mark":
      return <span className="mark">{node.text}</span>;
    case "strong":
      return <strong><Inlines of={node.of} /></strong>;
    case "em":
      return <em><Inlines of={node.of} /></em>;
    case "del":
      return <del><Inlines of={node.of} /></del>;
    case "link":
      return <><span className="link-name"><Inlines of={node.of} /></span> <Address to={node.to} /></>;
    case "image":
      return <><span className="link-name">image: {node.text || "no name"}</span> <Address to={node.to} /></>;
  }
}

/** The target of a link, to read and copy: nothing loads or follows it. */
function Address({ to }: { to: string }) {
  return <bdi dir="ltr" className="address">({to})</bdi>;
}
