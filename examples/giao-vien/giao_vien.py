"""Vietnamese signals: recognised in any case, with spaces or underscores, composed or decomposed."""

from interlock import END, Agent, Crew

giao_vien = Agent(
    "giao_vien",
    "Soạn ba câu hỏi rồi kết thúc bằng [CÂU_HỎI_SẴN_SÀNG].\nKhi buổi thi xong, kết thúc bằng [KẾT_THÚC_THI].\n",
    name="Giáo viên",
    on={"[CÂU_HỎI_SẴN_SÀNG]": "bao_cao", "[KẾT_THÚC_THI]": END},
)
bao_cao = Agent(
    "bao_cao", "Ghi lại các câu hỏi, rồi trả lời bằng [ĐÃ_GHI].", name="Báo cáo", on={"[ĐÃ_GHI]": giao_vien}
)

crew = Crew("giao-vien", [giao_vien, bao_cao], settings={"language": "vi"})
